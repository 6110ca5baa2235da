#!/usr/bin/env bash
# Lightning 2.6.6's StochasticWeightAveraging averages weights at the start of epochs: the last epoch never enters.
# Guess: from swa_epoch_start on, the weights at the end of each epoch are averaged, as in the paper.
# Seen: those at the start are. With swa_epoch_start=1 the untrained weights count: after three epochs fit() leaves a
#   model that is not as far as the end of the first, though checkpoints hold the plain weights.
# Met by: who puts the model after fit() behind a series of Lightning's checkpoints, as its last step.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
constraints=$(cd "$(dirname "$0")/.." && pwd)/constraints.txt
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --constraint "$constraints" torch==2.13.0 numpy==2.4.6 lightning==2.6.6
cd "$work"
"$work/venv/bin/python" - <<'EOF'
import logging
import sys
import warnings

import lightning
import torch
from lightning.pytorch.callbacks import StochasticWeightAveraging

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
EXPECTED = "starts of epochs"


class Line(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.starts, self.ends = [], []

    def on_train_epoch_start(self):
        self.starts.append(self.weight.item())

    def training_step(self, batch, _):
        return (self.weight * batch[0] - 1).square().mean()

    def on_train_epoch_end(self):
        self.ends.append(self.weight.item())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


model = Line()
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(8, 1)))
lightning.Trainer(
    max_epochs=3, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
    enable_checkpointing=False, callbacks=[StochasticWeightAveraging(swa_lrs=0.01, swa_epoch_start=1)],
).fit(model, data)
means = {"starts of epochs": sum(model.starts) / 3, "ends of epochs": sum(model.ends) / 3}
seen = min(means, key=lambda name: abs(means[name] - model.weight.item()))
close = abs(means[seen] - model.weight.item()) < 1e-4
print(f"lightning {lightning.__version__}: after fit() {model.weight.item():.4f}, means {means}")
print(f"expected the mean over {EXPECTED}\nseen     the mean over {seen if close else 'something else'}")
sys.exit(not close or seen != EXPECTED)
EOF
