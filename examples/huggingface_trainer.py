"""A small GPT-2 learns to copy under transformers.Trainer; the last three lines say when its heads did what.

python examples/huggingface_trainer.py [FOLDER]      (two minutes)
"""

import sys
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import stagewise
from stagewise.tasks import RepeatedTokens


def main(folder: Path, steps: int = 600) -> Path:
    """Train on random tokens of which a stretch comes again, and return the report."""
    batch = RepeatedTokens(32, length=19, bos=0).sample(100 * steps, seed=1)
    tokens = torch.cat([batch.tokens, batch.targets[:, -1:]], 1)
    labels = torch.nn.functional.pad(batch.targets.masked_fill(~batch.scored, -100), (1, 0), value=-100)
    rows = [{"input_ids": row, "labels": label} for row, label in zip(tokens, labels, strict=True)]
    sizes = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 29, "initializer_range": 0.1}
    sizes |= dict.fromkeys(["resid_pdrop", "embd_pdrop", "attn_pdrop"], 0.0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=32, bos_token_id=0, eos_token_id=0, **sizes))
    arguments = TrainingArguments(
        str(folder / "gpt2"), max_steps=steps, per_device_train_batch_size=64, use_cpu=True, disable_tqdm=True,
        learning_rate=3e-3, lr_scheduler_type="constant", save_strategy="no", logging_strategy="no", report_to=[],
    )  # fmt: skip
    schedule = stagewise.save_on(stagewise.schedules.linear(20, steps) | stagewise.schedules.logarithmic(6, 20))
    Trainer(model, arguments, train_dataset=rows, callbacks=[schedule]).train()

    series = stagewise.open_series(folder / "gpt2")
    print(analysis := stagewise.analyse(series, folder / "analysis", progress=False))
    return analysis.report


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/huggingface")))
