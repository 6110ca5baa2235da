"""Does repetition that ends keep its gain? Recall with copies of the query's pair up to a step, and none after it.

`python examples/curriculum.py [FOLDER]` trains thirty runs as two batched steps, in minutes; it resumes. The copies of
Zucchet et al. (2025), arXiv:2505.17863, are a schedule here. The active rule ends a seed's copies at the first
checkpoint with accuracy .9 on sequences with copies. All models are tested on sequences with one copy.
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
from stagewise.task import Batch
from stagewise.tasks import AssociativeRecall

EMERGED, LEARNED, COPIES = 0.5, 0.9, 4.0
"""Accuracies from which on recall has emerged, and is learned; B while there is repetition; without it B = 1."""


def recipe_of(stop: int, seed: int, steps: int) -> Recipe:
    """Return recall of six pairs of 32 tokens, with repetition before a step."""
    recipe = recipe_for(AssociativeRecall, seed=seed, n_pairs=6, n_tokens=32)
    plan = dataclasses.replace(recipe.plan, steps=steps, save=linear(100, steps))
    copies = {"task.n_copies": Steps((COPIES, 1.0), (stop,))}
    return dataclasses.replace(recipe, plan=plan, schedules=copies if stop else None)


def accuracy(run: Path, batch: Batch, parts: str) -> pd.DataFrame:
    """Return the accuracy of a trained run over training."""
    table = measure(open_series(run), [Accuracy()], batch, folder=run / parts, progress=False)
    variant, _, seed = run.name.partition("-seed-")
    return select(table, "Accuracy", "accuracy").assign(run=run.name, variant=variant, seed=int(seed))


def trained(folder: Path, stops: dict[tuple[str, int], int], steps: int) -> list[pd.DataFrame]:
    """Train a run for each variant and seed as one batched step; return their accuracies on sequences with one copy."""
    recipes = [recipe_of(stop, seed, steps) for (_, seed), stop in stops.items()]
    runs = [folder / f"{variant}-seed-{seed}" for variant, seed in stops]
    train_together(recipes, runs, progress=False)
    batches = [recipe.task.probe_batch(256, seed) for recipe, (_, seed) in zip(recipes, stops, strict=True)]
    return [accuracy(run, batch, "parts") for run, batch in zip(runs, batches, strict=True)]


def learned_with_copies(folder: Path, seed: int, steps: int) -> int:
    """Return the step at which a run whose copies never end has learned sequences with copies."""
    batch = recipe_of(steps, seed, steps).at(0).task.sample(256, seed)
    table = accuracy(folder / f"always-seed-{seed}", batch, "parts-with-copies")
    return int(min(find_emergence_times(table, "Accuracy", "accuracy", LEARNED)["hi"].item(), steps))


def main(
    folder: Path, stops: Sequence[int] = (200, 400, 800), seeds: Sequence[int] = range(5), steps: int = 1800
) -> Path:
    """Train every variant and seed, print the times, and return where their figure is."""
    ends = {"none": 0, "always": steps, **{f"to-{stop}": stop for stop in stops}}
    tables = trained(folder, {(variant, seed): stop for variant, stop in ends.items() for seed in seeds}, steps)
    active = {("active", seed): learned_with_copies(folder, seed, steps) for seed in seeds}
    print(f"accuracy {LEARNED} on sequences with copies, step by seed: {[*active.values()]}")
    table = pd.concat([*tables, *trained(folder, active, steps)])
    names = [*ends, "active"]
    figure, (curves, dots) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    means = table.pivot_table(index="step", columns="variant", values="value")[names]
    means.plot(ax=curves, style=["-", "--", ":"] * len(names), xlabel="optimiser steps", ylim=(0, 1))
    curves.set_ylabel("test accuracy, mean over seeds")
    for level in (LEARNED, EMERGED):
        times = find_emergence_times(table, "Accuracy", "accuracy", level)
        times[["variant", "seed"]] = table.drop_duplicates("run")[["variant", "seed"]].to_numpy()
        print(f"steps to {level}", times.pivot(index="variant", columns="seed", values="hi").loc[names], sep="\n")
    place, came = times["variant"].map(names.index), ~times["censored"]
    dots.plot(place[came], times["hi"][came], "o", alpha=0.6)
    dots.plot(place[~came], times["lo"][~came], "^", color="#cc6677", label="not surely by the last step")
    dots.set_xticks(range(len(names)), names, rotation=45)
    dots.set(ylabel=f"steps to test accuracy {EMERGED}", ylim=(0, 1.06 * steps))
    dots.legend(frameon=False, loc="lower left")
    print("last accuracy", means.loc[steps], sep="\n")
    figure.savefig(folder / "curriculum.png", dpi=150)
    return folder / "curriculum.png"


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/curriculum")))
