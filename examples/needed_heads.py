"""Which head does a stage need? The Markov chain over seeds, each of its heads held out of training from step 120 on.

    python examples/needed_heads.py [FOLDER]      (a run a seed, and six more that go on from it; two minutes each seed)

Heads are named by what they attend to at the end of the undisturbed run. A delay is how many steps later some other
head has come half-way to attending to a relation; the kick is the control, a push of a head's norm in a random
direction.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from scipy import stats

from stagewise import ClampHead, intervene, measure, select, train
from stagewise.experiments.incremental import markov
from stagewise.probes import AttentionTo

KICK = "a kick"


def delays_of(folder: Path, seed: int, start: int, **plan: Any) -> pd.DataFrame:
    """Train a seed, hold out each of its heads, and return the delays by the role of the head."""
    recipe = markov.recipe("minimal", seed=seed, plan=plan)
    series = train(recipe, folder, progress=False)
    heads = range(recipe.architecture.n_heads)
    rows = intervene(folder, [ClampHead(0, head, start) for head in heads], progress=False)
    last = measure(series[-1:], [AttentionTo()], recipe.task.probe_batch(400, seed), progress=False)
    mass = select(last, "AttentionTo", "mass").pivot(index="head", columns="relation", values="value")
    roles = {head: f"the {relation} head" for head, relation in mass.idxmax(axis=1).items()}
    role = [KICK if row.kind == "kick" else roles[row.head] for row in rows.itertuples()]
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


def main(folder: Path, seeds: Iterable[int] = range(5), start: int = 120, **plan: Any) -> Path:
    """Print the mean delays and return where their figure is; `plan` changes fields of the `TrainPlan`."""
    rows = pd.concat([delays_of(folder / str(seed), seed, start, **plan) for seed in seeds], ignore_index=True)
    print(summary(rows).round(0).to_string(index=False))
    return draw(rows, folder / "needed_heads.png")


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/needed-heads")))
