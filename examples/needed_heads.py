"""Which head does a stage need, and what if a head is given its target? Heads held from a plateau on, over seeds.

    python examples/needed_heads.py markov [FOLDER]   (a run a seed, six that continue it; two minutes a seed)
    python examples/needed_heads.py recall [FOLDER]   (a run a seed, eight that continue it; four minutes a seed)
    python examples/needed_heads.py given [FOLDER]    (a run a seed, four that continue it; three minutes a seed)

Of the first two each head is held out in turn; in the third, on the Markov chain, held at the relation that it attends
to at the end of the undisturbed run.

Heads are named by what they attend to at the end of the undisturbed run. A delay is how many steps later some other
head has come half-way to attending to a relation; the kick is the control, a push of a head's norm in a random
direction.
"""

import dataclasses
import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import torch
from matplotlib.figure import Figure

from stagewise import ClampHead, Recipe, find_delays, intervene, measure, recipe_for, schedules, train
from stagewise.papers.incremental import markov
from stagewise.papers.tasks import AssociativeRecall
from stagewise.probes import AttentionTo
from stagewise.table import select

Name = Literal["markov", "recall", "given"]

KICK = "a kick"
PLATEAU = {"markov": 120, "recall": 1000, "given": 120}
"""Steps before any head has gone from where all of them are."""

ATTENDS = 0.3
"""Attention to its relation from which on a head is named by it."""


def recipe_of(name: Name, seed: int, **plan: Any) -> Recipe:
    """Return the run of a seed: a layer of three heads on the Markov chain, two layers of two heads on recall."""
    if name != "recall":
        return markov.recipe("minimal", seed=seed, plan=plan)
    recipe = recipe_for(AssociativeRecall, seed=seed, n_heads=2)
    longer = {"steps": 6000, "save": schedules.linear(50, 6000), **plan}
    return dataclasses.replace(recipe, plan=dataclasses.replace(recipe.plan, **longer))


def delays_of(recipe: Recipe, folder: Path, seed: int, start: int, given: bool) -> pd.DataFrame:
    """Train a seed, hold each of its heads out or at its relation, and return the delays by the role of the head."""
    series, made = train(recipe, folder, progress=False), recipe.architecture
    heads = [(layer, head) for layer in range(made.n_layers) for head in range(made.n_heads)]
    last = measure(series[-1:], [AttentionTo()], recipe.task.probe_batch(400, seed), progress=False)
    along = select(last, "AttentionTo", "along").set_index(["layer", "head", "relation"])["value"].unstack()
    most = zip(heads, along.idxmax(axis=1), along.max(axis=1), strict=True)
    ends = {head: str(name) if mass >= ATTENDS else None for head, name, mass in most}
    clamps = [ClampHead(*head, start) for head in heads]
    if given:
        clamps = [ClampHead(*head, start, "relation", name) for head, name in ends.items() if name]
        clamps.append(ClampHead(*heads[0], start, "kick"))
    rows = intervene(folder, clamps, controls=not given, progress=False)
    roles = {head: f"the {name} head" if name else "a head of no relation" for head, name in ends.items()}
    held = zip(rows["layer"], rows["head"], rows["kind"], strict=True)
    role = [KICK if kind == "kick" else roles[layer, head] for layer, head, kind in held]
    return rows.assign(seed=seed, without=role)


def drawn(rows: pd.DataFrame) -> Figure:
    """Draw a panel a transition: each seed's delay, the mean and its interval, a triangle at the end for never."""
    means, names = find_delays(rows), sorted(rows["without"].unique())
    figure = Figure((12, 4), layout="constrained")
    for number, (transition, of) in enumerate(rows.groupby("transition", sort=False), start=1):
        ax = figure.add_subplot(1, rows["transition"].nunique(), number, title=transition, ylabel="delay, steps")
        for never, some in of.groupby(of["value"] == math.inf):
            ax.plot(
                some["without"].map(names.index), some["lo" if never else "value"], "^" if never else "o", alpha=0.6
            )
        mean = means[(means["transition"] == transition) & means["mean"].notna()]
        ends = [mean["mean"] - mean["lo"], mean["hi"] - mean["mean"]]
        places = [names.index(name) + 0.2 for name in mean["without"]]
        ax.errorbar(places, mean["mean"], ends, fmt="_", color="black", capsize=3)
        ax.set_xticks(range(len(names)), [name.replace(" head", "\nhead") for name in names])
    return figure


def main(name: Name, folder: Path, seeds: Iterable[int] = range(5), start: int | None = None, **plan: Any) -> Path:
    """Print the mean delays and return where their figure is; `plan` changes fields of the `TrainPlan`."""
    begin = PLATEAU[name] if start is None else start
    runs = [(recipe_of(name, seed, **plan), folder / str(seed), seed) for seed in seeds]
    every = [delays_of(*run, begin, name == "given") for run in runs]
    rows = pd.concat(every, ignore_index=True)
    print(find_delays(rows).round(0).to_string(index=False))
    kick = rows[rows["without"] == KICK].groupby(["transition", "seed"])["value"].mean().rename("kick")
    paired = rows[rows["without"] != KICK].join(kick, on=["transition", "seed"])
    print("less the kick's, seed by seed:")
    print(find_delays(paired.assign(value=paired["value"] - paired["kick"])).round(0).to_string(index=False))
    path = folder / "needed_heads.png"
    drawn(rows).savefig(path, dpi=150)
    return path


if __name__ == "__main__":
    torch.set_num_threads(1)
    task, *given = sys.argv[1:]
    name: Any = task  # one of `Name`
    print(main(name, Path(given[0] if given else f"runs/needed-heads-{name}")))
