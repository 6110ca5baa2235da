#!/usr/bin/env bash
# peft 0.21.2 merges an adapter of a tied unembedding into the embedding too: the merged model is another one.
# Guess: `merge_and_unload()` gives the predictions of the adapted model, to rounding, whatever is adapted.
# Seen: with `target_modules=["lm_head"]` on a tied base they differ by more than 1; untied they are equal to 1e-5.
# Met by: who saves `merge_and_unload()` in the place of the adapter. The library merges itself, and gives the adapted model's.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
constraints=$(cd "$(dirname "$0")/.." && pwd)/constraints.txt
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --constraint "$constraints" peft==0.21.2 torch transformers
cd "$work"
"$work/venv/bin/python" - <<'EOF'
import sys
from importlib.metadata import version

import peft
import torch
from transformers import LlamaConfig, LlamaForCausalLM

EXPECTED = {"tied": True, "untied": False}

seen = {}
for name in EXPECTED:
    config = LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2,
        tie_word_embeddings=name == "tied",
    )  # fmt: skip
    torch.manual_seed(0)
    adapted = peft.get_peft_model(LlamaForCausalLM(config).eval(), peft.LoraConfig(target_modules=["lm_head"]))
    with torch.no_grad():
        for weight in filter(lambda each: each.requires_grad, adapted.parameters()):
            weight.add_(torch.randn_like(weight))
    tokens = torch.arange(12)[None]
    own = adapted(tokens).logits
    difference = (adapted.merge_and_unload()(tokens).logits - own).abs().max().item()
    print(f"{name}: the merged model's logits differ by {difference:.2g}")
    seen[name] = difference > 1e-3
print(f"peft {version('peft')}: another model after the merge\nexpected {EXPECTED}\nseen     {seen}")
sys.exit(seen != EXPECTED)
EOF
