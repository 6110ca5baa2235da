#!/usr/bin/env bash
# The `step` of litgpt 0.5.13's metrics.csv counts batches from 0, though litgpt logs its count of updates by that name.
# Guess: `step` is the number that is printed behind "step" and stands in the names of checkpoints, step-00000002.
# Seen: Lightning's Fabric writes its own step over it: 3, 7, 11 for updates 1, 2, 3 of four batches each; the count of
#   updates is in no column.
# Met by: who looks up a transition of metrics.csv among the checkpoints: its steps are four times theirs, less one.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
# constraints.txt is left out: its huggingface-hub and jsonargparse are too new for litgpt.
"$work/venv/bin/pip" install --quiet torch==2.13.0 lightning==2.6.6 litgpt==0.5.13 numpy==2.4.6 requests
cd "$work"
HF_HUB_OFFLINE=1 "$work/venv/bin/python" - tiny <<'EOF'
import csv
import re
import sys
import warnings
from contextlib import redirect_stdout
from importlib.metadata import version
from io import StringIO
from pathlib import Path

warnings.simplefilter("ignore")
import torch
from litgpt import Config, pretrain
from litgpt.args import EvalArgs, TrainArgs
from litgpt.data import DataModule

EXPECTED = {"printed": [1, 2, 3, 4], "metrics.csv": [3, 7, 11, 15], "checkpoints": [2, 4]}


class Count(DataModule):
    def connect(self, tokenizer=None, batch_size=1, max_seq_length=None):
        self.batch, self.length = batch_size, max_seq_length

    def train_dataloader(self):
        rows = [(torch.arange(self.length + 1) + start) % 32 for start in range(64)]
        return torch.utils.data.DataLoader(rows, batch_size=self.batch)

    val_dataloader = train_dataloader


config = Config(
    name="tiny", block_size=16, vocab_size=32, padded_vocab_size=32, n_layer=1, n_head=2, n_embd=16,
    rotary_percentage=1.0, intermediate_size=32,
)
plan = TrainArgs(
    save_interval=2, log_interval=1, global_batch_size=8, micro_batch_size=2, max_tokens=16 * 8 * 4, max_norm=1.0,
    min_lr=1e-4, lr_warmup_steps=2, tie_embeddings=False,
)
screen = StringIO()
with redirect_stdout(screen):
    pretrain.setup(
        model_name="tiny", model_config=config, out_dir=Path("out"), precision="32-true", data=Count(), devices=1,
        logger_name="csv", seed=1, train=plan,
        eval=EvalArgs(interval=2, max_iters=2, initial_validation=False, final_validation=False),
    )
(file,) = Path("out").rglob("metrics.csv")
with file.open() as rows:
    logged = [int(row["step"]) for row in csv.DictReader(rows) if row["loss"]]
seen = {
    "printed": [int(step) for step in re.findall(r"iter \d+ step (\d+)", screen.getvalue())],
    "metrics.csv": logged,
    "checkpoints": sorted(int(each.name[5:]) for each in Path("out").glob("step-*")),
}
print(f"litgpt {version('litgpt')}, lightning {version('lightning')}: steps\nexpected {EXPECTED}\nseen     {seen}")
sys.exit(seen != EXPECTED)
EOF
