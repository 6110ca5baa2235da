"""Figure 1 of arXiv:2602.19143 at the small setting: the KL curves, the loss, and the attention map of each stage.

python examples/overview.py [RUN_FOLDER]      (trains where the folder holds no finished run; 2 minutes)
"""

import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import torch

from stagewise import plot, read_table
from stagewise.papers.incremental import markov


def main(folder: Path, **plan: Any) -> Path:
    """Draw the figure into the run folder and return where it is; `plan` changes fields of the `TrainPlan`."""
    stages = markov.run(markov.recipe("minimal", plan=plan), folder)
    table = read_table(folder, maps=True)
    moments = [0, *stages.table["end"]]
    figure = plt.figure(figsize=(10, 7), layout="constrained")
    (above,), (below,) = figure.subfigures(2, squeeze=False, height_ratios=(3, 2))
    left, right = above.subplots(1, 2)
    plot.kl_curves(table, stages=stages, ax=left)
    plot.loss_curve(table, stages=stages, ax=right)
    for step, ax in zip(moments, below.subplots(1, len(moments)), strict=True):
        plot.attention_map(table, step, ax=ax)
    figure.savefig(path := folder / "figures" / "overview.png", dpi=150)
    return path


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/markov")))
