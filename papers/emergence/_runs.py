"""Runs of the transformers on sparse regression and associative recall, from training to their emergence times."""

import math
import shutil
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pandas as pd
import torch

from stagewise.checkpoints import run_folder
from stagewise.checkpoints.series import open_series
from stagewise.loss import training_loss
from stagewise.measurement.engine import measure
from stagewise.papers.emergence.recipes import recall_recipe, regression_recipe
from stagewise.papers.emergence_times import find_emergence_times
from stagewise.papers.tasks import SparseRegression
from stagewise.probe import AbstractProbe
from stagewise.probes import Accuracy, AttentionTo, Loss, ValueAlignment
from stagewise.recipe import Recipe
from stagewise.table import select
from stagewise.task import EVALUATION, AbstractTask, Batch, derive_seed
from stagewise.training import Log, Metrics, train

_RECALL_THRESHOLDS = (0.05, 0.2, 0.5, 0.9)
"""Accuracies whose times are reported."""

FITTED = 0.5
"""The threshold that power laws are fitted to: the paper's 5 % is chance level for small sizes."""

_REGRESSION_THRESHOLD = 0.2
"""The part of the plateau's loss, that of answering zero: the paper's .1 of .5, for a teacher of any size."""

_EARLY_THRESHOLD = 0.8
"""The same for repetition across samples: the paper's .4 of .5."""

_LEARNED = 0.2
"""Share of ln N_tokens below which every batch's loss lies, between three checkpoints, when recall is learned."""

REGRESSED = 0.1
"""The same of a regression, of the loss of answering zero."""

_TRAINED_ON = "training-distribution.parquet"
"""A run's first probe on sequences with the repetition of its training, beside its table."""

_PROBE_SEQUENCES = 512
"""Sequences of recall; a regression takes a quarter of them, for its loss has less noise."""


def run_recall(runs: str, **parameters: Any) -> Mapping[str, float]:
    """Train and measure one recall model in a folder of its own under `runs`; return its emergence times.

    Returns `lo, hi` at accuracy 0.5, and `lo_5, hi_5` and so on for every threshold in percent (steps) above chance.

    Raises:
        ValueError: sizes out of range, or so small that chance reaches an accuracy of 0.5.
    """
    table = trained_recall(runs, **parameters)
    start = table.query("probe == 'Accuracy' and step == 0")["value"].item()
    bounds: dict[str, float] = {}
    for threshold in (each for each in _RECALL_THRESHOLDS if each > start or each == FITTED):
        times = find_emergence_times(table, "Accuracy", "accuracy", threshold)
        bounds |= {f"{end}_{threshold:.0%}".rstrip("%"): float(times[end].item()) for end in ("lo", "hi")}
    return {"lo": bounds["lo_50"], "hi": bounds["hi_50"], **bounds}


def trained_recall(runs: str, *, progress: bool = False, **parameters: Any) -> pd.DataFrame:
    """Train and measure one recall model in a folder of its own under `runs`; return the table.

    At the paper's size, and where the batch is chosen, training ends once recall is learned; with repetition it takes
    its whole budget, as accuracy on sequences without it may fall and rise again.
    """
    recipe = recall_recipe(**parameters)
    folder = run_path("recall", runs, **parameters)
    large = parameters.get("setting") == "paper"
    ends = (large or "batch_size" in parameters) and not _repeats(recipe)
    log = until_learned(recipe) if ends else None
    return measured(recipe, folder, recall_probes(recipe), keep_weights=not large, log=log, progress=progress)


def run_regression(runs: str, **parameters: Any) -> Mapping[str, float]:
    """Train and measure one regression model in a folder of its own under `runs`; return its emergence times.

    Returns `lo, hi` at a fifth of the plateau's loss and `lo_80, hi_80` at four fifths (steps). Training ends once the
    regression is learned; with repetition, which the test sequences lack, it takes its whole budget.
    """
    recipe = regression_recipe(**parameters)
    folder = run_path("regression", runs, **parameters)
    batch = _probe_batch(recipe)
    answers = batch.targets[batch.scored]
    of_zero = training_loss(torch.zeros_like(answers), answers).item()
    log = None if _repeats(recipe) else until_below(REGRESSED * of_zero, recipe)
    table = measured(recipe, folder, [Loss(), AttentionTo()], keep_weights=False, log=log)
    bounds: dict[str, float] = {}
    for suffix, share in (("", _REGRESSION_THRESHOLD), ("_80", _EARLY_THRESHOLD)):
        times = find_emergence_times(table, "Loss", "squared_error", share * of_zero, "down")
        bounds |= {f"{end}{suffix}": float(times[end].item()) for end in ("lo", "hi")}
    return bounds


def recall_probes(recipe: Recipe) -> list[AbstractProbe]:
    """Return accuracy, loss, attention along each relation and, where it can be read, which heads' weights copy."""
    probes: list[AbstractProbe] = [Accuracy(), Loss(), AttentionTo()]
    if recipe.architecture.config["normalization_type"] is None:
        probes.append(ValueAlignment({"copy": torch.eye(recipe.task.d_vocab)}))
    return probes


def run_path(kind: str, runs: str | Path, **parameters: Any) -> Path:
    """Return the folder of a run, named by its parameters.

    >>> run_path("recall", "runs", n_pairs=8, seed=0).as_posix()
    'runs/recall-n_pairs=8-seed=0'
    """
    return Path(runs) / "-".join([kind, *(f"{name}={value}" for name, value in parameters.items())])


def measured(
    recipe: Recipe,
    folder: Path,
    probes: Sequence[AbstractProbe],
    *,
    keep_weights: bool = True,
    log: Log | None = None,
    progress: bool = False,
) -> pd.DataFrame:
    """Train into a run folder and measure every checkpoint, or read what was measured there before.

    Wide models take gigabytes a run: without `keep_weights` their checkpoints go once they are measured. Training
    ends where its log raises `Learned`.
    """
    if (folder / run_folder.TABLE).exists():
        run_folder.claim(folder, recipe)
        return run_folder.read_table(folder)
    try:
        series = train(recipe, folder, log=log, progress=progress)
    except Learned:
        series = open_series(folder)
    if _repeats(recipe):
        measure(series, [type(probes[0])()], _training_batch(recipe), save=folder / _TRAINED_ON, progress=progress)
    table = measure(series, probes, _probe_batch(recipe), save=folder / run_folder.TABLE, progress=progress)
    if not keep_weights:
        shutil.rmtree(folder / "checkpoints")
        (folder / run_folder.RESUME).unlink()
    return table


class Learned(Exception):  # noqa: N818 nothing is wrong
    """There is nothing left to learn."""


def until_learned(recipe: Recipe) -> Log:
    """Return a log that raises `Learned` once recall is learned in training."""
    return until_below(_LEARNED * math.log(recipe.task.d_vocab), recipe)


def until_below(level: float, recipe: Recipe) -> Log:
    """Return a log that raises `Learned` once all losses between three checkpoints lie below a level."""
    saved = sorted(recipe.plan.saved_steps)
    losses: deque[float] = deque(maxlen=2 * (saved[1] - saved[0]))

    def log(metrics: Metrics) -> None:
        losses.append(float(metrics["loss"]))
        if len(losses) == losses.maxlen and max(losses) < level:
            raise Learned

    return log


def accuracy_of(parameters: Mapping[str, Any]) -> pd.DataFrame:
    """Return the test accuracy over training of a recall run, by its parameters."""
    return select(run_folder.read_table(run_path("recall", **parameters)), "Accuracy", "accuracy")


def trained_on(folder: Path) -> pd.DataFrame:
    """Return a run's first probe on fresh sequences of its training distribution; without repetition, on the test's."""
    path = folder / _TRAINED_ON
    return pd.read_parquet(path) if path.exists() else run_folder.read_table(folder)


def _repeats(recipe: Recipe) -> bool:
    """Whether sequences repeat in training, which those of the test do not."""
    task: Any = recipe.task
    return bool(task.n_copies > 1 or task.p > 0)


def _training_batch(recipe: Recipe) -> Batch:
    """Return fresh sequences with the repetition of training."""
    task: Any = recipe.task
    return cast(Batch, task.sample(_n_probed(task), derive_seed(recipe.plan.seeds.evaluation, EVALUATION)))


def _n_probed(task: AbstractTask) -> int:
    return _PROBE_SEQUENCES // 4 if isinstance(task, SparseRegression) else _PROBE_SEQUENCES


def _probe_batch(recipe: Recipe) -> Batch:
    return recipe.task.probe_batch(_n_probed(recipe.task), recipe.plan.seeds.evaluation)
