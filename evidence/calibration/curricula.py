"""Does easier data that ends keep its gain? Curricula of three tasks, over seeds, with a figure.

`python -m evidence.calibration.curricula recall|markov|regression FOLDER [SEEDS]` trains each variant and seed as
two batched
steps, in minutes; it resumes. Easier data have copies of the vector or the pair that a query needs, as the in-context
repetition of Zucchet et al. (2025), arXiv:2505.17863. The Markov chain repeats nothing: its groups of lags are equally
important at first. The active rule ends either at a seed's first checkpoint that has learned the easier data. All
models are tested on the task's own data, without.
"""

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import matplotlib.pyplot as plt
import pandas as pd
import torch
from matplotlib.axes import Axes

from stagewise import Recipe, Steps, measure, open_series, recipe_for
from stagewise.papers.emergence_times import find_emergence_times
from stagewise.papers.tasks import AssociativeRecall, SparseRegression
from stagewise.papers.training_together import train_together
from stagewise.probes import Accuracy, KLToReference
from stagewise.schedules import linear
from stagewise.table import select
from stagewise.task import AbstractTask, Batch
from stagewise.tasks import MarkovChain


class Study(NamedTuple):
    """A task with the sizes that are not its preset's, and what is easier.

    `field` has the first of `values` up to a step in `stops`, then the second. The probe's reading goes up or down; at
    the first of the `levels` the task has emerged, at the second it is learned.
    """

    task: type[AbstractTask]
    sizes: Mapping[str, Any]
    field: str
    values: tuple[float, float]
    probe: Accuracy | KLToReference
    label: str
    direction: Literal["up", "down"]
    levels: tuple[float, float]
    steps: int
    every: int
    stops: Sequence[int]


STUDIES = {
    "recall": Study(
        AssociativeRecall, {"n_pairs": 6, "n_tokens": 32}, "task.n_copies", (4.0, 1.0),
        Accuracy(), "test accuracy", "up", (0.5, 0.9), 1800, 100, (200, 400, 800),
    ),
    "markov": Study(
        MarkovChain, {}, "task.importance", (1.0, 1.7),
        KLToReference(("A*_1:3",)), "KL to the chain (nats)", "down", (0.15, 0.05), 1200, 15, (90, 180, 360),
    ),
    "regression": Study(
        SparseRegression, {}, "task.n_copies", (4.0, 1.0),
        KLToReference(("W*",)), "squared error / 2", "down", (0.2, 0.05), 240, 10, (25, 50, 100),
    ),
}  # fmt: skip
"""Name -> study. A Markov model that has learned two of three groups is 0.3 nats from the chain, and a regression that
has learned nothing has an error of 0.4 to 0.8. Stops are about a sixth, a third and two thirds of the time without; all
sizes were chosen on seeds 0 and 1."""


def recipe_of(study: Study, stop: int, seed: int) -> Recipe:
    """Return the recipe of a study, with easier data before a step."""
    recipe = recipe_for(study.task, seed=seed, **study.sizes)
    plan = dataclasses.replace(recipe.plan, steps=study.steps, save=linear(study.every, study.steps))
    easier = {study.field: Steps(study.values, (stop,))}
    return dataclasses.replace(recipe, plan=plan, schedules=easier if stop else None)


def curve(study: Study, run: Path, batch: Batch, parts: str) -> pd.DataFrame:
    """Return the probe's reading of a trained run over training."""
    table = measure(open_series(run), [study.probe], batch, folder=run / parts, progress=False)
    variant, _, seed = run.name.partition("-seed-")
    return select(table, type(study.probe).__name__).assign(run=run.name, variant=variant, seed=int(seed))


def trained(study: Study, folder: Path, stops: Mapping[tuple[str, int], int]) -> list[pd.DataFrame]:
    """Train a run for each variant and seed as one batched step; return their curves on the task's own data."""
    recipes = [recipe_of(study, stop, seed) for (_, seed), stop in stops.items()]
    runs = [folder / f"{variant}-seed-{seed}" for variant, seed in stops]
    train_together(recipes, runs, progress=False)
    batches = [recipe.task.probe_batch(256, seed) for recipe, (_, seed) in zip(recipes, stops, strict=True)]
    return [curve(study, run, batch, "parts") for run, batch in zip(runs, batches, strict=True)]


def times(study: Study, curves: pd.DataFrame, level: float) -> pd.DataFrame:
    """Return when each run gets to a level, with its variant and seed."""
    probe, quantity = curves[["probe", "quantity"]].iloc[0]
    found = find_emergence_times(curves, probe, quantity, level, study.direction)
    return found.merge(curves[["run", "variant", "seed"]].drop_duplicates("run"), on="run")


def learned_easier(study: Study, folder: Path, seed: int) -> int:
    """Return the step at which a run whose data stay easier has learned them."""
    easier = recipe_of(study, study.steps, seed).at(0).task
    batch = easier.sample(256, seed)
    batch = batch.with_references(easier.references(batch))
    table = curve(study, folder / f"always-seed-{seed}", batch, "parts-easier")
    return int(min(times(study, table, study.levels[1])["hi"].item(), study.steps))


def main(name: str, folder: Path, seeds: Sequence[int] = range(5), **changed: Any) -> Path:
    """Train every variant and seed, print the times, and return where their figure is."""
    study = STUDIES[name]._replace(**changed)
    ends = {"none": 0, "always": study.steps, **{f"to-{stop}": stop for stop in study.stops}}
    tables = trained(study, folder, {(variant, seed): stop for variant, stop in ends.items() for seed in seeds})
    active = {("active", seed): learned_easier(study, folder, seed) for seed in seeds}
    print(f"easier data are learned, step by seed: {[*active.values()]}")
    table = pd.concat([*tables, *trained(study, folder, active)])
    names = [*ends, "active"]
    for level in reversed(study.levels):
        came = times(study, table, level)
        print(f"steps to {level}", came.pivot(index="variant", columns="seed", values="hi").loc[names], sep="\n")
    means = table.pivot_table(index="step", columns="variant", values="value")[names]
    print("last reading", means.loc[study.steps], sep="\n")
    figure, (curves, dots) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    means.plot(ax=curves, style=["-", "--", ":"] * len(names), xlabel="optimiser steps")
    curves.set(ylabel=f"{study.label}, mean over seeds", ylim=(0, 1 if study.direction == "up" else None))
    _dots(dots, came, names, study)
    figure.savefig(folder / f"curriculum_{name}.png", dpi=150)
    return folder / f"curriculum_{name}.png"


def _dots(axes: Axes, came: pd.DataFrame, names: Sequence[str], study: Study) -> None:
    """Draw when the task has emerged, by variant, a dot a seed."""
    place, told = came["variant"].map(list(names).index), ~came["censored"]
    axes.plot(place[told], came["hi"][told], "o", alpha=0.6)
    axes.plot(place[~told], came["lo"][~told], "^", color="#cc6677", label="not surely by the last step")
    axes.set_xticks(range(len(names)), names, rotation=45)
    axes.set(ylabel=f"steps until {study.label} is {study.levels[0]}", ylim=(0, 1.06 * study.steps))
    if not told.all():
        axes.legend(frameon=False, loc="lower left")


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(main(sys.argv[1], Path(sys.argv[2]), range(int(sys.argv[3]) if len(sys.argv) > 3 else 5)))
