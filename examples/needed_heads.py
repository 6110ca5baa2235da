"""Which head does a stage need? Each head held out of training from a step of the plateau on, over seeds.

    python examples/needed_heads.py markov [FOLDER]   (a run a seed, and six that go on from it; two minutes a seed)
    python examples/needed_heads.py recall [FOLDER]   (a run a seed, and eight that go on from it; four minutes a seed)

Heads are named by what they attend to at the end of the undisturbed run. A delay is how many steps later some other
head has come half-way to attending to a relation; the kick is the control, a push of a head's norm in a random
direction.
"""

import dataclasses
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import torch

from stagewise import ClampHead, Recipe, intervene, linear, mean_delays, measure, plot, select, train
from stagewise.experiments.incremental import markov
from stagewise.experiments.presets import recipe_for
from stagewise.probes import AttentionTo
from stagewise.tasks import AssociativeRecall

Name = Literal["markov", "recall"]

KICK = "a kick"
PLATEAU = {"markov": 120, "recall": 1000}
"""Steps before any head has gone from where all of them are."""

ATTENDS = 0.3
"""Attention to its relation from which on a head is named by it."""


def recipe_of(name: Name, seed: int, **plan: Any) -> Recipe:
    """Return the run of a seed: a layer of three heads on the Markov chain, two layers of two heads on recall."""
    if name == "markov":
        return markov.recipe("minimal", seed=seed, plan=plan)
    recipe = recipe_for(AssociativeRecall, seed=seed, n_heads=2)
    longer = {"steps": 6000, "save": linear(50, 6000), **plan}
    return dataclasses.replace(recipe, plan=dataclasses.replace(recipe.plan, **longer))


def delays_of(recipe: Recipe, folder: Path, seed: int, start: int) -> pd.DataFrame:
    """Train a seed, hold out each of its heads, and return the delays by the role of the head."""
    series, made = train(recipe, folder, progress=False), recipe.architecture
    heads = [(layer, head) for layer in range(made.n_layers) for head in range(made.n_heads)]
    rows = intervene(folder, [ClampHead(*head, start) for head in heads], progress=False)
    last = measure(series[-1:], [AttentionTo()], recipe.task.probe_batch(400, seed), progress=False)
    along = select(last, "AttentionTo", "along").set_index(["layer", "head", "relation"])["value"].unstack()
    most = zip(heads, along.idxmax(axis=1), along.max(axis=1), strict=True)
    roles = {head: f"the {name} head" if mass >= ATTENDS else "a head of no relation" for head, name, mass in most}
    held = zip(rows["layer"], rows["head"], rows["kind"], strict=True)
    role = [KICK if kind == "kick" else roles[layer, head] for layer, head, kind in held]
    return rows.assign(seed=seed, without=role)


def main(name: Name, folder: Path, seeds: Iterable[int] = range(5), start: int | None = None, **plan: Any) -> Path:
    """Print the mean delays and return where their figure is; `plan` changes fields of the `TrainPlan`."""
    begin = PLATEAU[name] if start is None else start
    every = [delays_of(recipe_of(name, seed, **plan), folder / str(seed), seed, begin) for seed in seeds]
    rows = pd.concat(every, ignore_index=True)
    print(mean_delays(rows).round(0).to_string(index=False))
    figure, path = plot.delays(rows), folder / "needed_heads.png"
    figure.savefig(path, dpi=150)
    return path


if __name__ == "__main__":
    torch.set_num_threads(1)
    task, *given = sys.argv[1:]
    print(main("recall" if task == "recall" else "markov", Path(given[0] if given else f"runs/needed-heads-{task}")))
