#!/usr/bin/env bash
# pytorch_optimizer 4.1.0's ScheduleFreeAdamW steps in evaluation mode without a word; schedulefree's own raises.
# Guess: both raise at step() after eval(), since gradients at the average are not the method's.
# Seen: training goes on from the averaged weights and its path is another one; the state says train_mode False throughout.
# Met by: who reads a series saved by a loop that calls eval() to save and forgets train(): train_mode says "averaged".
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
constraints=$(cd "$(dirname "$0")/.." && pwd)/constraints.txt
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --constraint "$constraints" torch==2.13.0 numpy==2.4.6 pytorch_optimizer==4.1.0 schedulefree==1.4.1
cd "$work"
"$work/venv/bin/python" - <<'EOF'
import sys
from importlib.metadata import version

import pytorch_optimizer
import schedulefree
import torch

EXPECTED = {"pytorch_optimizer": "another path, train_mode False", "schedulefree": "raised"}

MAKERS = {"pytorch_optimizer": pytorch_optimizer.ScheduleFreeAdamW, "schedulefree": schedulefree.AdamWScheduleFree}


def trained(make, forgets):
    """Return the averaged weights after twelve steps, saved in between by a loop that may forget train()."""
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))
    optimiser = make([weight], lr=0.1)
    optimiser.train()
    for step in range(12):
        if step == 6:
            optimiser.eval()
            if not forgets:
                optimiser.train()
        optimiser.zero_grad()
        weight.square().sum().backward()
        optimiser.step()
    mode = optimiser.state_dict()["param_groups"][0]["train_mode"]
    optimiser.eval()
    return weight.detach().clone(), mode


def told(make):
    right, _ = trained(make, forgets=False)
    try:
        forgotten, mode = trained(make, forgets=True)
    except Exception:
        return "raised"
    return f"{'the same' if torch.allclose(right, forgotten, atol=1e-3) else 'another'} path, train_mode {mode}"


seen = {name: told(make) for name, make in MAKERS.items()}
print(f"pytorch_optimizer {version('pytorch_optimizer')}, schedulefree {version('schedulefree')}")
print(f"expected {EXPECTED}\nseen     {seen}")
sys.exit(seen != EXPECTED)
EOF
