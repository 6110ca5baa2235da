"""Does repetition that ends keep its gain? Recall with copies of the query's pair up to a step, and none after it.

    python examples/curriculum.py [FOLDER]   (twenty runs, trained as one batched step: minutes)

Zucchet et al. (2025), The emergence of sparse attention, arXiv:2505.17863, repeat the query's pair in all of training;
their conclusion asks for strategies that choose the diversity of the data as training goes on. Here the copies, B in
the mean, are a schedule of the recipe. All models are tested on sequences with one copy. A time is that of the
first checkpoint with accuracy .9, of one in 25 steps.
"""

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import torch

from stagewise import Recipe, Steps, find_emergence_times, measure, open_series, recipe_for, train_together
from stagewise.probes import Accuracy
from stagewise.schedules import linear
from stagewise.table import select
from stagewise.tasks import AssociativeRecall

LEARNED = 0.9
"""Test accuracy from which on recall is learned."""


def recipe_of(stop: int, seed: int, n_copies: float, steps: int) -> Recipe:
    """Return recall of four pairs of 32 tokens, with copies before the step `stop`."""
    recipe = recipe_for(AssociativeRecall, seed=seed, n_pairs=4, n_tokens=32)
    plan = dataclasses.replace(recipe.plan, steps=steps, save=linear(25, steps))
    schedules = {"task.n_copies": Steps((n_copies, 1.0), (stop,))} if stop else None
    return dataclasses.replace(recipe, plan=plan, schedules=schedules)


def measured(recipe: Recipe, folder: Path, stop: int, seed: int) -> pd.DataFrame:
    """Return the test accuracy of a trained run over training."""
    batch = recipe.task.probe_batch(512, seed)
    table = measure(open_series(folder), [Accuracy()], batch, folder=folder / "parts", progress=False)
    return select(table, "Accuracy", "accuracy").assign(stop=stop, seed=seed, run=f"{stop}, {seed}")


def main(
    folder: Path,
    stops: Sequence[int] = (0, 200, 400, 1600),
    seeds: Sequence[int] = range(5),
    n_copies: float = 2.0,
    steps: int = 1600,
) -> Path:
    """Train every stop and seed, print the times, and return where their figure is."""
    cells = [(stop, seed) for stop in stops for seed in seeds]
    recipes = [recipe_of(*cell, n_copies, steps) for cell in cells]
    folders = [folder / f"stop={stop}-seed={seed}" for stop, seed in cells]
    train_together(recipes, folders)
    runs = zip(recipes, folders, cells, strict=True)
    table = pd.concat([measured(recipe, place, *cell) for recipe, place, cell in runs])
    times = find_emergence_times(table, "Accuracy", "accuracy", LEARNED)
    times[["stop", "seed"]] = cells
    print(times.pivot(index="stop", columns="seed", values="hi").to_string())
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.2, 3.8), layout="constrained")
    for stop in stops:
        mean = table[table["stop"] == stop].groupby("step")["value"].mean()
        left.plot(mean.index, mean, label=f"copies up to step {stop}" if stop else "one copy")
    left.set(xlabel="optimiser steps", ylabel="test accuracy, mean over seeds", ylim=(0, 1))
    left.legend(frameon=False, fontsize=8)
    place = times["stop"].map({stop: number for number, stop in enumerate(stops)})
    right.plot(place[~times["censored"]], times["hi"][~times["censored"]], "o", alpha=0.6)
    right.plot(place[times["censored"]], times["lo"][times["censored"]], "^", color="#cc6677")
    right.set_xticks(range(len(stops)), [str(stop) for stop in stops])
    right.set(xlabel=f"step up to which B = {n_copies:g}", ylabel=f"steps to test accuracy {LEARNED}", ylim=(0, None))
    path = folder / "curriculum.png"
    figure.savefig(path, dpi=150)
    return path


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/curriculum")))
