"""Trainers of post-training."""

import json
from pathlib import Path

from _small import CONFIG, SERIES, model
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaForSequenceClassification, PreTrainedTokenizerFast

COMMON = {
    "max_steps": 8, "save_steps": 2, "per_device_train_batch_size": 4, "logging_steps": 1, "report_to": "none",
    "use_cpu": True, "learning_rate": 0.01,
}  # fmt: skip
PROMPT, GOOD, BAD = "w3 w4 w5 ", "w6 w7 w8", "w9 w3 w20 w4"
LOG = ";stages run/checkpoint-8/trainer_state.json"


def _tokenizer():
    words = {word: number for number, word in enumerate(["<pad>", "<s>", "</s>", *(f"w{n}" for n in range(3, 32))])}
    plain = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="<pad>", bos_token="<s>", eos_token="</s>")


def _told(trainer):
    trainer.train()
    rows = trainer.state.log_history
    print("columns:", sorted(rows[0]))
    print("losses:", [round(row["loss"], 4) for row in rows if "loss" in row])
    state = json.loads(Path("run/checkpoint-8/trainer_state.json").read_text())
    print("tokens in trainer_state.json:", state["num_input_tokens_seen"])
    return SERIES + LOG


def trl_sft():
    """trl==1.16.0"""
    from trl import SFTConfig, SFTTrainer

    rows = Dataset.from_list([{"text": PROMPT + GOOD}] * 16)
    return _told(SFTTrainer(model(), SFTConfig("run", **COMMON), train_dataset=rows, processing_class=_tokenizer()))


def trl_dpo():
    """trl==1.16.0"""
    from trl import DPOConfig, DPOTrainer

    rows = Dataset.from_list([{"prompt": PROMPT, "chosen": GOOD, "rejected": BAD}] * 16)
    model().save_pretrained("base")
    return _told(DPOTrainer("base", args=DPOConfig("run", **COMMON), train_dataset=rows, processing_class=_tokenizer()))


def trl_grpo():
    """trl==1.16.0"""
    from trl import GRPOConfig, GRPOTrainer

    settings = GRPOConfig("run", num_generations=4, max_completion_length=6, **COMMON)
    rows = Dataset.from_list([{"prompt": PROMPT}] * 16)
    return _told(
        GRPOTrainer(
            model(), lambda completions, **_: [float("w6" in each) for each in completions], args=settings,
            train_dataset=rows, processing_class=_tokenizer(),
        )
    )  # fmt: skip


def trl_reward():
    """trl==1.16.0"""
    from trl import RewardConfig, RewardTrainer

    rows = Dataset.from_list([{"prompt": PROMPT, "chosen": GOOD, "rejected": BAD}] * 16)
    CONFIG.num_labels = 1
    scorer = LlamaForSequenceClassification(CONFIG)
    return _told(
        RewardTrainer(scorer, args=RewardConfig("run", **COMMON), train_dataset=rows, processing_class=_tokenizer())
    )


def trl_grpo_log():
    """trl==1.16.0"""
    from trl import GRPOConfig, GRPOTrainer

    longer = {**COMMON, "max_steps": 30, "save_steps": 30}
    settings = GRPOConfig("run", num_generations=4, max_completion_length=3, loss_type="grpo", **longer)
    rows = Dataset.from_list([{"prompt": PROMPT}] * 16)
    GRPOTrainer(
        model(), lambda completions, **_: [float("w6" in each) for each in completions], args=settings,
        train_dataset=rows, processing_class=_tokenizer(),
    ).train()  # fmt: skip
    return "stages run/checkpoint-30/trainer_state.json"
