"""Does repetition that ends keep its gain? Recall with copies of the query's pair up to a step, and none after it.

    python examples/curriculum.py [FOLDER]   (thirty runs, trained as two batched steps: minutes; it resumes)

Zucchet et al. (2025), The emergence of sparse attention, arXiv:2505.17863, repeat the query's pair in all of training;
their conclusion asks for strategies that choose the diversity of the data as training goes on. Here the copies, B in
the mean, are a schedule of the recipe. The active rule repeats what is not learned yet: a seed's copies end at the
first checkpoint with accuracy .9 on sequences with copies. All models are tested on sequences with one copy. A time is
the upper end of its 95 % interval, of a checkpoint in 100 steps.
"""

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import pandas as pd
import torch

from stagewise import Recipe, Steps, find_emergence_times, measure, open_series, recipe_for, train_together
from stagewise.probes import Accuracy
from stagewise.schedules import linear
from stagewise.table import select
from stagewise.task import Batch
from stagewise.tasks import AssociativeRecall

EMERGED, LEARNED = 0.5, 0.9
"""Accuracies from which on recall has emerged, and is learned."""

EVERY = 100
"""Optimiser steps from one checkpoint to the next."""

COPIES = 4.0
"""B while there is repetition; without it B = 1."""


class Run(NamedTuple):
    """A run of a variant, with repetition before the step `stop`."""

    variant: str
    stop: int
    seed: int

    def folder(self, of: Path) -> Path:
        """Return its folder in that of all runs."""
        return of / f"{self.variant}-seed-{self.seed}".replace(" ", "-")

    def recipe(self, steps: int) -> Recipe:
        """Return recall of six pairs of 32 tokens with this repetition."""
        recipe = recipe_for(AssociativeRecall, seed=self.seed, n_pairs=6, n_tokens=32)
        plan = dataclasses.replace(recipe.plan, steps=steps, save=linear(EVERY, steps))
        copies = {"task.n_copies": Steps((COPIES, 1.0), (self.stop,))}
        return dataclasses.replace(recipe, plan=plan, schedules=copies if self.stop else None)


def accuracy(folder: Path, run: Run, batch: Batch, parts: str) -> pd.DataFrame:
    """Return the accuracy of a trained run over training."""
    place = run.folder(folder)
    table = measure(open_series(place), [Accuracy()], batch, folder=place / parts, progress=False)
    return select(table, "Accuracy", "accuracy").assign(run=place.name, variant=run.variant, seed=run.seed)


def trained(folder: Path, runs: Sequence[Run], steps: int) -> list[pd.DataFrame]:
    """Train runs as one batched step, and return the accuracy of each on sequences with one copy."""
    recipes = [run.recipe(steps) for run in runs]
    train_together(recipes, [run.folder(folder) for run in runs], progress=False)
    batches = [recipe.task.probe_batch(256, run.seed) for recipe, run in zip(recipes, runs, strict=True)]
    return [accuracy(folder, run, batch, "parts") for run, batch in zip(runs, batches, strict=True)]


def learned_with_copies(folder: Path, run: Run, steps: int) -> int:
    """Return the step at which a run whose copies never end has learned sequences with copies."""
    task = run.recipe(steps).at(0).task
    table = accuracy(folder, run, task.sample(256, run.seed), "parts-with-copies")
    return int(min(find_emergence_times(table, "Accuracy", "accuracy", LEARNED)["hi"].item(), steps))


def main(
    folder: Path, stops: Sequence[int] = (200, 400, 800), seeds: Sequence[int] = range(5), steps: int = 1800
) -> Path:
    """Train every variant and seed, print the times, and return where their figure is."""
    ends = {"none": 0, "always": steps, **{f"to {stop}": stop for stop in stops}}
    runs = [Run(variant, stop, seed) for variant, stop in ends.items() for seed in seeds]
    tables = trained(folder, runs, steps)
    learned = {run.seed: learned_with_copies(folder, run, steps) for run in runs if run.variant == "always"}
    print(f"accuracy {LEARNED} on sequences with copies, step by seed: {learned}")
    active = [Run("active", stop, seed) for seed, stop in learned.items()]
    tables += trained(folder, active, steps)
    table = pd.concat(tables)
    names = list(table["variant"].unique())
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained")
    for number, name in enumerate(names):
        mean = table[table["variant"] == name].groupby("step")["value"].mean()
        axes[0].plot(mean.index, mean, label=name, linestyle=("-", "--", ":")[number % 3])
    axes[0].set(xlabel="optimiser steps", ylabel="test accuracy, mean over seeds", ylim=(0, 1))
    axes[0].legend(frameon=False, fontsize=8, title="copies")
    for axis, level in zip(axes[1:], (EMERGED, LEARNED), strict=True):
        times = find_emergence_times(table, "Accuracy", "accuracy", level)
        times[["variant", "seed"]] = table.drop_duplicates("run")[["variant", "seed"]].to_numpy()
        print(
            f"steps to accuracy {level}", times.pivot(index="variant", columns="seed", values="hi").loc[names], sep="\n"
        )
        place = times["variant"].map(names.index)
        came = ~times["censored"]
        axis.plot(place[came], times["hi"][came], "o", alpha=0.6)
        axis.plot(place[~came], times["lo"][~came], "^", color="#cc6677", label="not surely by the last step")
        axis.set_xticks(range(len(names)), names, rotation=45)
        axis.set(ylabel=f"steps to test accuracy {level}", ylim=(0, 1.06 * steps))
        axis.legend(frameon=False, fontsize=8, loc="lower left")
    print("last accuracy", table[table["step"] == steps].groupby("variant")["value"].mean().loc[names], sep="\n")
    path = folder / "curriculum.png"
    figure.savefig(path, dpi=150)
    return path


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/curriculum")))
