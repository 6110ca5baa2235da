#!/usr/bin/env bash
# Building pyvene 0.1.8's IntervenableModel freezes the model that was given and takes it out of training mode.
# Guess: the wrapper hooks the model while it runs and leaves parameters and mode as they were.
# Seen: requires_grad is False for every parameter and training is False as soon as the wrapper is built, and stay so.
# Met by: who intervenes on the model of a running training, or hands it on to what needs gradients of its weights.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
constraints=$(cd "$(dirname "$0")/.." && pwd)/constraints.txt
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --constraint "$constraints" torch==2.13.0 transformers==5.23.0 pyvene==0.1.8
cd "$work"
"$work/venv/bin/python" - <<'EOF'
import sys
from importlib.metadata import version

import pyvene
from transformers import GPT2Config, GPT2LMHeadModel

EXPECTED = {"requires_grad": {False}, "training": False}

config = GPT2Config(n_embd=16, n_layer=1, n_head=2, vocab_size=11, n_positions=16, bos_token_id=0, eos_token_id=0)
model = GPT2LMHeadModel(config).train()
assert all(each.requires_grad for each in model.parameters())
plan = pyvene.IntervenableConfig(
    representations=[{"layer": 0, "component": "block_output"}], intervention_types=pyvene.VanillaIntervention
)
pyvene.IntervenableModel(plan, model=model)
seen = {"requires_grad": {each.requires_grad for each in model.parameters()}, "training": model.training}
print(f"pyvene {version('pyvene')}: the user's own model\nexpected {EXPECTED}\nseen     {seen}")
sys.exit(seen != EXPECTED)
EOF
