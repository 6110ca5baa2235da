"""Theory over measurement: the minimal model on the regression variant of arXiv:2602.19143, plain SGD.

python examples/theory_overlay.py [FOLDER]      (a minute; time of the gradient flow = rate x steps, theory dashed)
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import torch

from stagewise import plot
from stagewise.papers.incremental import _regression as regression
from stagewise.papers.tasks import MarkovRegression
from stagewise.papers.theory.competitive import plateau_losses
from stagewise.papers.theory.dynamics import solve


def main(folder: Path, **plan: int) -> Path:
    """Draw the figure into the folder and return where it is; `plan` is for `regression.sgd`."""
    task = MarkovRegression()
    theory = regression.theory(task)
    recipe = regression.regression_recipe(task, theory, regression.sgd(**plan))
    table = regression.train_and_measure(recipe, folder / "run")
    predicted = solve(theory, range(0, recipe.plan.steps + 1, 10), recipe.plan.learning_rate)
    figure = plt.figure(figsize=(11, 6), layout="constrained")
    (above,), (below,) = figure.subfigures(2, squeeze=False)
    loss = plot.loss_curve(table, theory=predicted, ax=above.subplots())
    for level in plateau_losses(theory):
        loss.axhline(level, color="#bbbbbb", linewidth=0.7, label="_plateau", zorder=0)
    for head, ax in enumerate(below.subplots(1, theory.n_heads)):
        plot.head_masses(table, 0, head, ax=ax, theory=predicted)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(path := folder / "regression_theory.png", dpi=150)
    return path


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/regression")))
