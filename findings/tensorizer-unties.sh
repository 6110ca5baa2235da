#!/usr/bin/env bash
# Loading with tensorizer 2.12.1 unties a tied model: the unembedding becomes a parameter of its own.
# Guess: load_into_module fills the parameters that are there, so a tie of the module stays one.
# Seen: each name gets a new parameter, of the file's type too. Values agree at first; trained on, the two drift apart,
#   and save_pretrained then writes both under a config that says tied.
# Met by: who resumes a run through tensorizer: from that step on the series has two matrices where its config has one.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
# constraints.txt is left out: its python-dateutil is too new for boto3, which tensorizer needs.
"$work/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.4.6 transformers==5.23.0 tensorizer==2.12.1
cd "$work"
"$work/venv/bin/python" - <<'EOF'
import sys
from importlib.metadata import version

import torch
from tensorizer import TensorDeserializer, TensorSerializer
from transformers import GPT2Config, GPT2LMHeadModel

EXPECTED = {"tied after loading": False, "apart after a step": True, "type": torch.float32}

config = GPT2Config(n_embd=16, n_layer=1, n_head=2, vocab_size=11, n_positions=16, bos_token_id=0, eos_token_id=0)
writer = TensorSerializer("model.tensors")
writer.write_module(GPT2LMHeadModel(config))
writer.close()
model = GPT2LMHeadModel(config).half()
assert model.lm_head.weight is model.transformer.wte.weight
TensorDeserializer("model.tensors", device="cpu").load_into_module(model)
tied = model.lm_head.weight is model.transformer.wte.weight
assert torch.equal(model.lm_head.weight, model.transformer.wte.weight)
optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
tokens = torch.arange(8)[None]
model(tokens, labels=tokens).loss.backward()
optimiser.step()
seen = {
    "tied after loading": tied,
    "apart after a step": not torch.equal(model.lm_head.weight, model.transformer.wte.weight),
    "type": model.lm_head.weight.dtype,
}
print(f"tensorizer {version('tensorizer')}\nexpected {EXPECTED}\nseen     {seen}")
sys.exit(seen != EXPECTED)
EOF
