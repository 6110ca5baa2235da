"""Figure 3 of arXiv:2602.19143 at the small setting: KL to the truncated references and to restricted-context models.

    python examples/restricted_context.py [RUN_FOLDER]    (trains where the folder holds no finished run)

Left and middle as in the paper; right, the same model with its attention restricted to the last c positions.
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
    recipe = markov.recipe("minimal", plan=plan)
    stages = markov.run(recipe, folder)
    table = read_table(folder)
    trained = [f"trained c={context}" for context in recipe.task.contexts or ()]
    figure, (references, models, restricted) = plt.subplots(1, 3, figsize=(14, 4), layout="constrained")
    plot.kl_curves(table, stages=stages, ax=references)
    plot.kl_curves(table, trained, stages=stages, ax=models)
    plot.restricted_context(table, stages, restricted)
    figure.savefig(path := folder / "figures" / "restricted_context.png", dpi=150)
    return path


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/markov")))
