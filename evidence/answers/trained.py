"""Tasks of the catalogue over three seeds, and runs that learn nothing in stages: the truth is read off their
curves, point by point."""

import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from evidence.answers.case import Case, Change, Truth
from stagewise import Recipe, TrainPlan, read_table, recipe_for, train
from stagewise.analysis import measure_run
from stagewise.architectures import OneHotInit
from stagewise.checkpoints.run_folder import TABLE
from stagewise.papers.incremental import markov
from stagewise.papers.tasks import AssociativeRecall, MarkovRegression, SequenceClasses, SparseRegression
from stagewise.table import head_label, select
from stagewise.tasks import MarkovChain, RepeatedTokens

SEEDS = range(3)
RISEN = 0.05
"""Part of the fall of KL to a reference by which it rises again, where the model leaves it."""

LARGE = 0.2
"""A change of an accuracy or of a head's attention, or of a loss as a part of its start, that is one."""

AFTER = 1.2
"""Ratio of steps after which copying has emerged, once its accuracy is half-way."""


class Run(NamedTuple):
    """A run over seeds: its truth in words, the recipe of a seed, and how the truth is read off the table."""

    sentence: str
    recipe: Callable[[int], Recipe]
    truth: Callable[[pd.DataFrame], Truth]
    seeds: range = SEEDS


def nested(table: pd.DataFrame) -> Truth:
    """Return a change at the checkpoint where KL to each reference but the last is lowest, if it falls and rises."""
    rows = table[(table["probe"] == "KLToReference") & (table["quantity"] == "kl") & (table["nested"] > 0)]
    changes = list[Change]()
    for place in sorted(rows["nested"].unique())[:-1]:
        curve = rows[rows["nested"] == place].sort_values("step")
        values, steps = curve["value"].to_numpy(float), curve["step"].to_numpy(float)
        at = int(values.argmin())
        fallen, risen = values[0] - values[at], values[-1] - values[at]
        if 0 < at < len(values) - 1 and fallen > values[0] / 3 and risen > RISEN * fallen:
            changes.append(_between(steps, at))
    return Truth(tuple(changes))


def half_way(probe: str, quantity: str, table: pd.DataFrame) -> Truth:
    """Return one change where a curve crosses the middle of its first and last levels for good, if these differ."""
    curve = select(table, probe, quantity)
    values = curve["value"].to_numpy(float)
    return _middle(curve["step"].to_numpy(float), values, 1.0 if probe == "Accuracy" else float(np.median(values[:3])))


def copied(table: pd.DataFrame) -> Truth:
    """Return where the accuracy crosses its middle; where the head does that changes most afterwards may be told."""
    emerged = IN_THE_MIDDLE(table)
    if not emerged.changes:
        return emerged
    (once,) = emerged.changes
    rows = table[(table["probe"] == "AttentionTo") & (table["quantity"] == "along")]
    later = rows[rows["step"] > once.hi * AFTER].sort_values("step")
    curves = [curve for _, curve in later.groupby(["layer", "head", "relation"])]
    most = max(curves, key=lambda curve: abs(curve["value"].tail(3).median() - curve["value"].head(3).median()))
    again = _middle(most["step"].to_numpy(float), most["value"].to_numpy(float), 1.0)
    head = frozenset({head_label(*most[["layer", "head"]].astype(int).iloc[0])})
    return Truth((once,), may=tuple(change._replace(heads=head) for change in again.changes))


def taken(table: pd.DataFrame) -> Truth:
    """Return one change where what each head attends to at the end has half of its attention, on average over heads."""
    rows = table[(table["probe"] == "AttentionTo") & (table["quantity"] == "along")]
    steps, at_the_end = np.sort(rows["step"].unique()), rows["step"].isin(rows["step"].drop_duplicates().nlargest(3))
    own = rows[at_the_end].groupby(["layer", "head", "relation"])["value"].mean().groupby(["layer", "head"]).idxmax()
    of_own = pd.MultiIndex.from_frame(rows[["layer", "head", "relation"]]).isin(own)
    return _middle(steps.astype(float), rows[of_own].groupby("step")["value"].mean().to_numpy(float), 1.0)


def taken_later(table: pd.DataFrame) -> Truth:
    """Return the same; that the loss falls before, to what heads give that all attend alike, may be told."""
    once = taken(table)
    return once._replace(may=tuple(Change(table["step"].min(), change.lo) for change in once.changes))


def _middle(steps: np.ndarray, values: np.ndarray, scale: float) -> Truth:
    first, last = np.median(values[:3]), np.median(values[-3:])
    if abs(last - first) < LARGE * scale:
        return Truth()
    half = int(np.flatnonzero((values - first) / (last - first) < 0.5)[-1]) + 1
    return Truth((Change(steps[half - 1], steps[half]),))


def none(table: pd.DataFrame) -> Truth:
    """Return the truth of a run without transitions."""
    return Truth()


def _between(steps: np.ndarray, at: int) -> Change:
    return Change(steps[at - 1], steps[at + 1])


def _still(kind: type[Any], seed: int, **fields: Any) -> Recipe:
    """Return a recipe whose learning rate is so small that nothing is learned."""
    recipe = recipe_for(kind, seed=seed, **fields)
    plan = recipe.plan
    slow = TrainPlan(300, plan.batch_size, learning_rate=1e-7, seeds=plan.seeds)
    return Recipe(recipe.task, recipe.architecture, slow)


def _markov(seed: int, **parameters: Any) -> Recipe:
    return markov.recipe("minimal", seed, **parameters)


IN_THE_MIDDLE = functools.partial(half_way, "Accuracy", "accuracy")
RUNS: Mapping[str, Run] = {
    "markov": Run(
        "Groups of lags are learned one after another: the model leaves A*_1 where KL to it is lowest, then A*_1:2.",
        _markov, nested,
    ),
    "markov-regression": Run(
        "Groups of lags are learned one by one: the model leaves each partial solution where KL to it is lowest.",
        lambda seed: recipe_for(MarkovRegression, seed=seed), nested,
    ),
    "recall": Run(
        "Recall emerges at once, where the accuracy crosses the middle of its way.",
        lambda seed: recipe_for(AssociativeRecall, seed=seed), IN_THE_MIDDLE,
    ),
    "sparse-regression": Run(
        "The loss leaves its plateau once, where it crosses the middle of its way.",
        lambda seed: recipe_for(SparseRegression, seed=seed), functools.partial(half_way, "Loss", "squared_error"),
    ),
    "sequence-classes": Run(
        "Two phases: the accuracy rises at once, where it crosses the middle of its way.",
        lambda seed: recipe_for(SequenceClasses, seed=seed), IN_THE_MIDDLE,
    ),
    "repeated-tokens": Run(
        "Copying emerges where the accuracy crosses the middle of its way, or never; a head may change once more.",
        lambda seed: recipe_for(RepeatedTokens, seed=seed), copied,
    ),
    "m = 1": Run(
        "All groups are equally important: the loss falls to what heads give that attend alike, at once or not; then "
        "heads take a group each at once, where their attention to it is half-way.",
        lambda seed: _markov(seed, importance=1.0), taken_later, range(2),
    ),
    "zero weights": Run(
        "Values and queries start at zero: all heads learn the same at once, where their attention to it is half-way.",
        lambda seed: _markov(seed, model={"init": OneHotInit(query_scale=0.0)}), taken, range(2),
    ),
    "still, markov": Run(
        "The learning rate is 1e-7: nothing is learned.", lambda seed: _still(MarkovChain, seed), none, range(1),
    ),
    "still, repeated tokens": Run(
        "The learning rate is 1e-7: nothing is learned.", lambda seed: _still(RepeatedTokens, seed), none, range(1),
    ),
}  # fmt: skip


def cases() -> Iterator[Case]:
    """Yield the runs of every seed."""
    for name, run in RUNS.items():
        for seed in run.seeds:
            yield Case(f"run: {name}, seed {seed}", run.sentence, functools.partial(measured, run, seed), run.truth)


def measured(run: Run, seed: int, folder: Path) -> pd.DataFrame:
    """Return the table of a run by the default probes, trained and measured where it is not there."""
    if not (folder / TABLE).exists():
        recipe = run.recipe(seed)
        train(recipe, folder, progress=False)
        measure_run(recipe, folder, progress=False)
    return read_table(folder)
