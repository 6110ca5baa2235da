#!/usr/bin/env bash
# The loss that trl 1.16.0's GRPOTrainer logs tells how the lengths of completions go with their rewards.
# Guess: on fresh completions the ratio is 1 and advantages sum to 0, so the loss is 0 whatever was sampled.
# Seen: 0 under loss_type="grpo" alone. Under the default "dapo", short rewarded answers give a positive loss, though
#   the learning rate is 0 and nothing can be learned.
# Met by: who looks for stages in the column `loss` of a GRPO run's trainer_state.json.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
constraints=$(cd "$(dirname "$0")/.." && pwd)/constraints.txt
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --constraint "$constraints" torch==2.13.0 trl==1.16.0 transformers==5.23.0
cd "$work"
HF_HUB_OFFLINE=1 "$work/venv/bin/python" - <<'EOF'
import sys

import torch
import trl
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

EXPECTED = {"dapo": "above 0.1", "grpo": "0"}

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


def shorter_is_better(completions, **_):
    return [-float(len(each.split())) for each in completions]


def losses(loss_type):
    torch.manual_seed(0)
    arguments = trl.GRPOConfig(
        "run", loss_type=loss_type, learning_rate=0.0, max_steps=4, per_device_train_batch_size=8, num_generations=8,
        max_completion_length=24, logging_steps=1, save_strategy="no", report_to="none", use_cpu=True, bf16=False,
    )
    prompts = Dataset.from_list([{"prompt": "a b c"}] * 8)
    trainer = trl.GRPOTrainer(
        LlamaForCausalLM(config), shorter_is_better, args=arguments, train_dataset=prompts, processing_class=tokenizer
    )
    trainer.train()
    return [row["loss"] for row in trainer.state.log_history if "loss" in row]


def kind(values):
    return "0" if max(map(abs, values)) < 1e-5 else "above 0.1" if min(values) > 0.1 else "neither"


seen = {each: losses(each) for each in EXPECTED}
told = {each: kind(values) for each, values in seen.items()}
print(f"trl {trl.__version__}\nexpected {EXPECTED}\nseen     {told} {seen}")
sys.exit(told != EXPECTED)
EOF
