"""When will the plateau end? Forecasts from its checkpoints: the toy model by its theory, recall without one.

    python examples/early_warning.py [FOLDER]      (one minute)

The toy model trains towards a fifth of its first loss, where its flow has an attention of 0.87; recall towards an
accuracy of a half. The figure shows what had been read, what was forecast, and what came.
"""

import dataclasses
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import torch

from stagewise import measure, schedules, train
from stagewise.papers.emergence.recipes import recall_recipe
from stagewise.papers.emergence.toy_attention import run_toy_curve
from stagewise.papers.forecast import predict_onset
from stagewise.papers.law_plots import early_warning
from stagewise.papers.theory.dynamics import solve
from stagewise.papers.theory.sparse_attention import SparseAttention
from stagewise.probes import AttentionTo
from stagewise.table import select


def toy_attention(seed: int, steps: int) -> pd.DataFrame:
    """Return the toy model's attention on the relevant one of 64 tokens."""
    curve = run_toy_curve(64, 64, seed, budget=steps, every=10, weights="zero")
    return pd.DataFrame({"step": curve["steps"], "value": curve["attention"]})


def recall_attention(folder: Path, seed: int, steps: int) -> pd.DataFrame:
    """Return the attention of recall's second layer from the query to its value, every 25 steps."""
    recipe = recall_recipe(8, 64, seed=seed)
    plan = dataclasses.replace(recipe.plan, steps=steps, save=schedules.linear(25, steps))
    series = train(dataclasses.replace(recipe, plan=plan), folder, progress=False)
    table = measure(series, [AttentionTo()], recipe.task.probe_batch(400, seed), progress=False)
    return select(table, "AttentionTo", "mass", relation="query to value", layer=1)


def main(folder: Path, seed: int = 20, steps: int = 3600, cuts: tuple[int, ...] = (1200, 1800)) -> Path:
    """Print each forecast, and return where their figure is."""
    figure, axes = plt.subplots(1, 1 + len(cuts), figsize=(4.2 * (1 + len(cuts)), 2.8), layout="constrained")
    flow = solve(SparseAttention(64, 64), range(0, 950, 5))
    toy, level = toy_attention(seed, steps=1000), (0.75, 0.95)
    forecast = predict_onset(toy, level, until=300, theory=flow)
    early_warning(toy, forecast, level, axes[0]).set_title("toy model, by its theory", fontsize=9, loc="left")
    print(f"toy model, {forecast}")
    recall, level = recall_attention(folder, seed, steps), (0.25, 0.75)
    for cut, ax in zip(cuts, axes[1:], strict=True):
        forecast = predict_onset(recall, level, until=cut)
        early_warning(recall, forecast, level, ax).set_title(f"recall, from step {cut}", fontsize=9, loc="left")
        print(f"recall, {forecast}")
    axes[0].set_ylabel("attention on what is relevant")
    path = folder / "early_warning.png"
    figure.savefig(path, dpi=150)
    return path


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/early-warning")))
