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

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from scipy import stats

from stagewise import ClampHead, Recipe, intervene, linear, measure, select, train
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


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean delay over seeds with its 95 % interval (Student's t), and how often it never came."""
    lines = []
    for (transition, without), of in rows.groupby(["transition", "without"], sort=False):
        by_seed = of.groupby("seed")["value"].mean()  # of several kicks, or heads of one role
        came = by_seed[np.isfinite(by_seed)]
        half = stats.t.ppf(0.975, len(came) - 1) * came.sem() if len(came) > 1 else np.nan
        known = {"transition": transition, "without": without, "seeds": len(by_seed), "never": len(by_seed) - len(came)}
        lines.append({**known, "mean": came.mean(), "lo": came.mean() - half, "hi": came.mean() + half})
    return pd.DataFrame(lines)


def draw(rows: pd.DataFrame, path: Path) -> Path:
    """Draw a panel a transition: each seed's delay, and their mean with its interval; arrows where it never came."""
    means, names = summary(rows), sorted(rows["without"].unique())
    transitions = list(dict.fromkeys(rows["transition"]))
    figure, axes = plt.subplots(
        1, len(transitions), figsize=(4 * len(transitions), 3.4), layout="constrained", squeeze=False
    )
    for transition, ax in zip(transitions, axes[0], strict=True):
        of = rows[rows["transition"] == transition]
        place = of["without"].map(names.index) + 0.06 * (of["seed"] - of["seed"].mean())
        never = np.isinf(of["value"])
        ax.plot(place[~never], of["value"][~never], "o", color="#4477aa", alpha=0.6, markersize=4)
        ax.plot(place[never], of["lo"][never], "^", color="#cc6677", markersize=6)
        for mean in means[(means["transition"] == transition) & means["mean"].notna()].itertuples():
            x = names.index(mean.without) + 0.25
            ax.errorbar(x, mean.mean, [[mean.mean - mean.lo], [mean.hi - mean.mean]], fmt="_", color="black", capsize=3)
        ax.axhline(0, color="#999999", linewidth=0.8)
        ax.set_xticks(range(len(names)), [name.replace("the ", "without\nthe ") for name in names], fontsize=8)
        ax.set_title(transition, fontsize=9, loc="left")
        ax.set_ylabel("delay, optimiser steps")
    figure.savefig(path, dpi=150)
    return path


def main(name: Name, folder: Path, seeds: Iterable[int] = range(5), start: int | None = None, **plan: Any) -> Path:
    """Print the mean delays and return where their figure is; `plan` changes fields of the `TrainPlan`."""
    begin = PLATEAU[name] if start is None else start
    every = [delays_of(recipe_of(name, seed, **plan), folder / str(seed), seed, begin) for seed in seeds]
    rows = pd.concat(every, ignore_index=True)
    print(summary(rows).round(0).to_string(index=False))
    return draw(rows, folder / "needed_heads.png")


if __name__ == "__main__":
    torch.set_num_threads(1)
    task, *given = sys.argv[1:]
    print(main("recall" if task == "recall" else "markov", Path(given[0] if given else f"runs/needed-heads-{task}")))
