#!/usr/bin/env bash
# A resumed schedulefree 1.4.1 ScheduleFreeWrapper moves weights that were saved in training mode: its state keeps no mode.
# Guess: state_dict has "train_mode", as AdamWScheduleFree of the same package has, and train() after loading moves nothing.
# Seen: no mode is saved. A new wrapper counts as in evaluation mode, so train() pushes the training weights away from
#   the average once more, and the resumed run differs from the uninterrupted one.
# Met by: who reads a series across a resume, or asks a checkpoint which of its two sets of weights it holds.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
constraints=$(cd "$(dirname "$0")/.." && pwd)/constraints.txt
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --constraint "$constraints" torch==2.13.0 numpy==2.4.6 schedulefree==1.4.1
cd "$work"
"$work/venv/bin/python" - <<'EOF'
import copy
import sys
from importlib.metadata import version

import schedulefree
import torch

EXPECTED = {"wrapper": (False, True), "adamw": (True, False)}

MAKERS = {
    "wrapper": lambda weights: schedulefree.ScheduleFreeWrapper(torch.optim.SGD(weights, lr=0.1), momentum=0.9),
    "adamw": lambda weights: schedulefree.AdamWScheduleFree(weights, lr=0.1),
}


def resumed(make):
    """Train ten steps, save in training mode, load as a new process would, and call train()."""
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))
    optimiser = make([weight])
    optimiser.train()
    for _ in range(10):
        optimiser.zero_grad()
        weight.square().sum().backward()
        optimiser.step()
    saved_weight, saved_state = weight.detach().clone(), copy.deepcopy(optimiser.state_dict())
    loaded = torch.nn.Parameter(saved_weight.clone())
    optimiser = make([loaded])
    optimiser.load_state_dict(saved_state)
    optimiser.train()
    told = any("train_mode" in group for group in saved_state["param_groups"])
    return told, bool((loaded - saved_weight).abs().max() > 1e-3)


seen = {name: resumed(make) for name, make in MAKERS.items()}
print(f"schedulefree {version('schedulefree')}: (mode is saved, train() moves loaded weights)")
print(f"expected {EXPECTED}\nseen     {seen}")
sys.exit(seen != EXPECTED)
EOF
