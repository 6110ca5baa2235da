"""Make the golden tables: `python -m tests.golden.make_tables`, once: `make golden` writes the findings."""

import dataclasses
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from evidence.answers import circuits, logged
from evidence.answers.planting import generator
from stagewise import (
    CheckpointSeries,
    Recipe,
    default_probes,
    measure,
    open_series,
    read_log,
    read_table,
    recipe_for,
    schedules,
    train,
)
from stagewise.analysis import run
from stagewise.findings._frames import names_of
from stagewise.findings._kinds import OUTPUTS, PATTERNS
from stagewise.findings.scores import evidence
from stagewise.papers.tasks import AssociativeRecall, MarkovRegression, SequenceClasses, SparseRegression
from stagewise.table import Role, rows_named, tidy, with_role
from stagewise.task import AbstractTask
from stagewise.tasks import MarkovChain, RepeatedTokens

DATA = Path(__file__).parent / "data"

SEQUENCES, RESAMPLES = 48, 24
"""Sequences of a probe batch and its resamples: few keep the tables small."""

PROBES = {
    *("Accuracy", "AttentionTo", "HeadSpecialisation", "InContextLearning", "KLToReference", "Loss"),
    *("OVCopying", "OffsetProfile", "PatternClusters"),
}
"""Probes whose rows findings read; the ablations, which take most of the time, are none of them."""


def _demo(folder: Path) -> pd.DataFrame:
    """Return the evidence of `stagewise run markov`; the intervals of its sentences take all resamples of KL."""
    run(recipe_for(MarkovChain), folder, restricted=None, workers=2, progress=False)
    table = read_table(folder)
    return _thinned(rows_named(table, evidence(table)))


def _thinned(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with all resamples of KL to nested references, and few of the others."""
    boundary = (rows["probe"] == with_role(rows, Role.KL)[0][0]) & (rows["nested"] > 0)
    whole = boundary.fillna(False).astype(bool)
    cells = [one[:RESAMPLES] if isinstance(one, np.ndarray) else one for one in rows["resamples"]]
    return rows.assign(resamples=rows["resamples"].where(whole, pd.Series(cells, rows.index)))


def _measured(series: CheckpointSeries, task: AbstractTask) -> pd.DataFrame:
    batch = task.probe_batch(SEQUENCES, seed=0)
    chosen = [one for one in default_probes(series.architecture, batch, task) if type(one).__name__ in PROBES]
    return measure(series, chosen, batch, resamples=RESAMPLES, progress=False)


def _trained(recipe: Recipe, every: int, steps: int, folder: Path) -> pd.DataFrame:
    plan = dataclasses.replace(recipe.plan, steps=steps, save=schedules.linear(every, steps))
    series = train(dataclasses.replace(recipe, plan=plan), folder, progress=False)
    return _of_two_heads(_measured(series, recipe.task))


def _task(kind: type[Any], every: int, steps: int, **fields: Any) -> Callable[[Path], pd.DataFrame]:
    return lambda folder: _trained(recipe_for(kind, **fields), every, steps, folder)


def _seeds(folder: Path) -> pd.DataFrame:
    """Return the rows of three seeds of a small Markov chain."""
    recipes = [recipe_for(MarkovChain, seed=seed, d_vocab=8, spans=(1, 1), length=8) for seed in range(3)]
    return tidy([_trained(one, 15, 450, folder / f"seed-{seed}") for seed, one in enumerate(recipes)])


def _log(name: str) -> Callable[[Path], pd.DataFrame]:
    log = logged.LOGS[name]
    return lambda _: read_log({"step": log.steps.astype(int), **log.make(generator(name), log.steps)}, run=name)


def _circuit(name: str) -> Callable[[Path], pd.DataFrame]:
    """Return how to make the rows of a series of models into which heads are put: those of its first two heads."""

    def make(_: Path) -> pd.DataFrame:
        models = circuits.models(circuits.CIRCUITS[name], generator(name))
        return _of_two_heads(_measured(open_series(models, name=name), circuits.TASK))

    return make


def _of_two_heads(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the first two heads of each layer, and of the whole model."""
    return table[table["head"].isna() | (table["head"] < 2)]


TABLES: Mapping[str, Callable[[Path], pd.DataFrame]] = {
    "demo": _demo,
    "recall": _task(AssociativeRecall, 100, 3000, n_pairs=3, n_tokens=12),
    "sparse_regression": _task(SparseRegression, 40, 1200, n_positions=4, d=2),
    "markov_regression": _task(MarkovRegression, 200, 6000),
    "sequence_classes": _task(SequenceClasses, 20, 600),
    "repeated_tokens": _task(RepeatedTokens, 40, 1200, d_vocab=16, length=8),
    "log_in_warm_up": _log("jump within a warm-up"),
    "log_grokking": _log("grokking"),
    "log_spike": _log("spike of three nats"),
    "two_heads_form": _circuit("two heads at two times"),
    "head_dies": _circuit("a head that comes and dies"),
    "seeds": _seeds,
}
"""Name of a golden table -> how it was made: of six tasks, three logs, two series of models, three seeds."""


def make(name: str) -> None:
    """Make a golden table: the rows that findings are read from, whose numbers single precision holds."""
    with tempfile.TemporaryDirectory() as folder:
        table = TABLES[name](Path(folder) / "run")
    rows = rows_named(table, {*evidence(table), *names_of(table, *PATTERNS, *OUTPUTS)})
    rows = rows.astype({column: "float32" for column in ("value", "lo", "hi") if column in rows})
    rows.dropna(axis="columns", how="all").to_parquet(DATA / f"{name}.parquet", index=False, compression="zstd")


if __name__ == "__main__":
    for each in sys.argv[1:] or TABLES:
        make(each)
