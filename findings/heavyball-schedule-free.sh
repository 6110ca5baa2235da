#!/usr/bin/env bash
# A checkpoint of heavyball 3.2.1's SFAdamW that says nothing of its mode holds training weights, and z has a long name.
# Guess: as in schedulefree, each parameter's state has "z" and the group has "train_mode" from the start.
# Seen: no "train_mode" until eval() was called once; z is "update_by_schedule_free_z_0", one level deeper than torch's
#   optimisers keep it.
# Met by: who looks up in an optimiser's state whether a checkpoint holds the averaged weights, or wants to average them.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
constraints=$(cd "$(dirname "$0")/.." && pwd)/constraints.txt
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --constraint "$constraints" torch==2.13.0 numpy==2.4.6 heavyball==3.2.1
cd "$work"
"$work/venv/bin/python" - <<'EOF'
import sys
from importlib.metadata import version

import heavyball
import torch

EXPECTED = {"mode at first": None, "mode after eval()": False, "z": "0/0/update_by_schedule_free_z_0"}


def places(state, path=()):
    for key, value in state.items():
        if isinstance(value, dict):
            yield from places(value, (*path, str(key)))
        else:
            yield "/".join((*path, str(key)))


weight = torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))
optimiser = heavyball.SFAdamW([weight], lr=0.1)
for _ in range(5):
    optimiser.zero_grad()
    weight.square().sum().backward()
    optimiser.step()
first = optimiser.state_dict()
optimiser.eval()
seen = {
    "mode at first": first["param_groups"][0].get("train_mode"),
    "mode after eval()": optimiser.state_dict()["param_groups"][0].get("train_mode"),
    "z": next(place for place in places(first["state"]) if "_z" in place or place.endswith("/z")),
}
print(f"heavyball {version('heavyball')}\nexpected {EXPECTED}\nseen     {seen}")
sys.exit(seen != EXPECTED)
EOF
