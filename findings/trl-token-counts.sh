#!/usr/bin/env bash
# After a resume trl 1.16.0's SFTTrainer and DPOTrainer count num_tokens from 0 again; its GRPOTrainer counts on.
# Guess: one base class counts for all, so all begin anew, and trainer_state.json has no tokens unless asked for.
# Seen: GRPO alone keeps its count in trainer_state.json (num_input_tokens_seen), though include_num_input_tokens_seen
#   is "no"; there it is prompts and completions. SFT writes 0.
# Met by: who puts tokens on the axis of post-training: a resumed SFT log goes back to 0, a GRPO log does not.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
constraints=$(cd "$(dirname "$0")/.." && pwd)/constraints.txt
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --constraint "$constraints" torch==2.13.0 trl==1.16.0 transformers==5.23.0
cd "$work"
HF_HUB_OFFLINE=1 "$work/venv/bin/python" - <<'EOF'
import json
import sys
from pathlib import Path

import trl
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

EXPECTED = {"SFT": ("begins anew", False), "GRPO": ("counts on", True)}

words = {word: number for number, word in enumerate(["<pad>", "<unk>", "</s>", "a", "b", "c", "d", "e"])}
plain = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=plain, pad_token="<pad>", unk_token="<unk>", eos_token="</s>"
)
config = LlamaConfig(
    vocab_size=8, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
    max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2,
)
COMMON = {
    "per_device_train_batch_size": 4, "logging_steps": 1, "save_steps": 2, "report_to": "none", "use_cpu": True,
    "bf16": False,
}
DATA = Dataset.from_list([{"text": "a b c d", "prompt": "a b c"}] * 16)


def trainer(kind, steps):
    if kind == "SFT":
        settings = trl.SFTConfig("SFT", max_steps=steps, **COMMON)
        data = DATA.remove_columns("prompt")
        return trl.SFTTrainer(LlamaForCausalLM(config), settings, train_dataset=data, processing_class=tokenizer)
    settings = trl.GRPOConfig("GRPO", max_steps=steps, num_generations=4, max_completion_length=4, **COMMON)
    data = DATA.remove_columns("text")
    reward = lambda completions, **_: [float(len(each)) for each in completions]
    model = LlamaForCausalLM(config)
    return trl.GRPOTrainer(model, reward, args=settings, train_dataset=data, processing_class=tokenizer)


def counted(kind):
    trainer(kind, 2).train()
    resumed = trainer(kind, 4)
    resumed.train(resume_from_checkpoint=f"{kind}/checkpoint-2")
    tokens = [row["num_tokens"] for row in resumed.state.log_history if "num_tokens" in row]
    print(kind, "num_tokens", tokens)
    state = json.loads(Path(kind, "checkpoint-4", "trainer_state.json").read_text())
    return "counts on" if tokens == sorted(tokens) else "begins anew", state["num_input_tokens_seen"] > 0


seen = {kind: counted(kind) for kind in EXPECTED}
print(f"trl {trl.__version__}: (num_tokens after a resume, trainer_state has tokens)\nexpected {EXPECTED}\nseen     {seen}")
sys.exit(seen != EXPECTED)
EOF
