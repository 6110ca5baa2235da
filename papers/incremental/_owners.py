"""In which order groups of lags come to have a head of their own, beside the order of their importance."""

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Int
from scipy.stats import spearmanr

from stagewise.measurement.engine import measure
from stagewise.papers.incremental import markov
from stagewise.papers.incremental._drawing import finish, panels
from stagewise.papers.published import Result, over_some, table_of
from stagewise.papers.running import run_each
from stagewise.probes import HeadSpecialisation
from stagewise.recipe import Recipe
from stagewise.training import train

DIFFUSE = 0.5
"""Share of a head's attention to all groups below which it has no group."""

DWELL = 2
"""Checkpoints, at least, for which a head that owns a group keeps it."""

SEQUENCES = 400
"""Sequences that heads are measured on."""


def recipe_of(seed: int, setting: str = "small") -> Recipe:
    """Return Figure 2's run of a seed."""
    return markov.recipe("minimal", seed, setting=setting)


def figure_owners(
    folder: Path, setting: str = "small", seeds: Sequence[int] = range(3), *, workers: int = 1, progress: bool = True
) -> Result:
    """Train a model for each seed, and draw which group each head has at each checkpoint.

    A head has the group with most of its attention to all groups, where that is at least `DIFFUSE`; a group is covered
    from the first checkpoint on at which some head has it and keeps it for `DWELL` checkpoints.

    Args:
        folder: holds the run folders.
        setting: "small" or "paper", Figure 2's size.
        seeds: of everything.
        workers: processes, of one thread each.
        progress: show bars.

    Source: released code of Yüksel et al. (2026), arXiv:2602.19143: labels of heads and steps of coverage.
    """
    work = functools.partial(_labelled, folder=folder, setting=setting)
    found = run_each(work, [{"seed": seed} for seed in seeds], workers, progress=progress)
    figure, axes = panels(len(found))
    for ax, seed, (steps, labels) in zip(axes, seeds, found, strict=True):
        for head, of_head in enumerate(labels.T):
            ax.step(steps, np.where(of_head < 0, np.nan, of_head + 1 + 0.06 * head), where="post", label=f"head {head}")
        finish(ax, f"seed {seed}", "step", "group of most attention")
        ax.set_yticks([1, 2, 3], ["I(1)", "I(2)", "I(3)"])
    return Result(figure, table_of(owner_rows(found)))


def labels_of(shares: pd.DataFrame) -> tuple[np.ndarray, Int[np.ndarray, "checkpoint head"]]:
    """Return checkpoints' steps, and the number of the group that each head has there, -1 for none."""
    wide = shares.pivot_table(index="step", columns=["layer", "head", "relation"], values="value")
    groups = sorted(shares["relation"].unique())
    of_heads = [part.to_numpy() for _, part in wide.T.groupby(level=["layer", "head"])]
    values = np.stack([part.reshape(len(groups), -1).T for part in of_heads], axis=1)
    return wide.index.to_numpy(), np.where(values.max(-1) >= DIFFUSE, values.argmax(-1), -1)


def coverage(labels: Int[np.ndarray, "checkpoint head"], groups: int) -> list[int | None]:
    """Return the first checkpoint at which each group has a head that keeps it, None where it never has."""
    first: list[int | None] = [None] * groups
    for of_head in labels.T:
        start = 0
        for group, run in itertools.groupby(of_head.tolist()):
            length = len([*run])
            earlier = first[group] if group >= 0 else None
            if group >= 0 and length >= DWELL and (earlier is None or start < earlier):
                first[group] = start
            start += length
    return first


def owner_rows(found: Sequence[tuple[np.ndarray, np.ndarray]], groups: int = 3) -> list[dict[str, str]]:
    """Return the order in which groups are covered beside that of their importance, and how often heads move on."""
    covered = [
        [math.nan if at is None else float(steps[at]) for at in coverage(labels, groups)] for steps, labels in found
    ]
    whole = [[at for at in one if math.isfinite(at)] for one in covered]
    # Where all are covered at one checkpoint there is no order.
    ordered = [one for one in whole if len(one) == groups and len({*one}) > 1]
    orders = [float(spearmanr(range(groups), one).statistic) for one in ordered]
    moves = [sum(map(_moves, labels.T)) for _, labels in found]
    return [
        *(over_some(f"step from which I({k + 1}) has a head", "-", [one[k] for one in covered]) for k in range(groups)),
        over_some("Spearman, order of coverage with that of importance", "1", orders, of=len(found)),
        over_some("groups that some head has", str(groups), [len(one) for one in whole]),
        over_some("times a head goes on to another group", "-", moves),
    ]


def _moves(of_head: Int[np.ndarray, " checkpoint"]) -> int:
    """Return how often a head goes on to another group, be it by way of none."""
    return int(np.count_nonzero(np.diff(of_head[of_head >= 0])))


def _labelled(
    case: Mapping[str, Any], folder: Path, setting: str, progress: bool
) -> tuple[np.ndarray, Int[np.ndarray, "checkpoint head"]]:
    recipe = recipe_of(case["seed"], setting)
    series = train(recipe, folder / f"owners-seed{case['seed']}", progress=progress)
    batch = recipe.task.probe_batch(SEQUENCES, recipe.plan.seeds.evaluation)
    table = measure(series, [HeadSpecialisation()], batch, progress=False)
    return labels_of(table[table["quantity"] == "share"])
