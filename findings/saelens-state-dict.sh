#!/usr/bin/env bash
# A HookedSAETransformer of SAELens 6.54.12 computes through its attached SAE, and its state_dict does not hold it.
# Guess: an SAE replaces the module of its hook, so its weights stand in state_dict beneath the hook's name.
# Seen: names and number of weights are those of the bare model, while logits are others; a deep copy keeps the SAE.
# Met by: who gives such a model as a checkpoint in memory, or saves its state_dict: the SAE is lost without a word.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
constraints=$(cd "$(dirname "$0")/.." && pwd)/constraints.txt
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --constraint "$constraints" torch==2.13.0 transformer-lens==3.9.0 sae-lens==6.54.12
cd "$work"
"$work/venv/bin/python" - <<'EOF'
import copy
import sys
from importlib.metadata import version

import torch
from sae_lens import HookedSAETransformer, StandardSAE, StandardSAEConfig
from transformer_lens import HookedTransformerConfig

EXPECTED = {"names added": [], "logits differ": True, "copy keeps it": True}

config = HookedTransformerConfig(
    n_layers=1, d_model=16, n_ctx=16, d_head=8, n_heads=2, d_vocab=11, act_fn="gelu", device="cpu", seed=0
)
model = HookedSAETransformer(config)
tokens = torch.arange(8)[None]
names, bare = set(model.state_dict()), model(tokens)
sae = StandardSAE(StandardSAEConfig(d_in=16, d_sae=32, device="cpu", dtype="float32"))
sae.cfg.metadata.hook_name = "blocks.0.hook_resid_post"
model.add_sae(sae)
with_sae = model(tokens)
copied = HookedSAETransformer(config)
copied.load_state_dict(model.state_dict())
seen = {
    "names added": sorted(set(model.state_dict()) - names),
    "logits differ": bool((with_sae - bare).abs().max() > 0.1),
    "copy keeps it": bool(torch.allclose(copy.deepcopy(model)(tokens), with_sae)),
}
assert torch.allclose(copied(tokens), bare, atol=1e-5)
print(f"sae-lens {version('sae-lens')}, transformer-lens {version('transformer-lens')}")
print(f"expected {EXPECTED}\nseen     {seen}")
sys.exit(seen != EXPECTED)
EOF
