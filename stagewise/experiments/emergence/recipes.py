"""Transformers on sparse regression and associative recall: recipes, and a run from training to its emergence time."""

import dataclasses
import math
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import pandas as pd
import torch

from stagewise.architecture import Architecture
from stagewise.checkpoints import run_folder
from stagewise.detection.thresholds import emergence_times
from stagewise.init import LinearInit
from stagewise.loss import training_loss
from stagewise.measurement.engine import measure
from stagewise.plan import linear
from stagewise.probe import AbstractProbe
from stagewise.probes import Accuracy, AttentionTo, Loss, ValueAlignment
from stagewise.recipe import Recipe, Seeds, TrainPlan
from stagewise.task import EVALUATION, AbstractTask, Batch, derive_seed
from stagewise.tasks import AssociativeRecall, SparseRegression
from stagewise.training import train

Setting = Literal["small", "paper"]

RECALL_THRESHOLDS = (0.05, 0.2, 0.5, 0.9)
"""Accuracies whose times are reported."""

FITTED = 0.5
"""The threshold that power laws are fitted to: the paper's 5 % is chance level for small sizes."""

REGRESSION_THRESHOLD = 0.2
"""Of the loss of answering zero, which is the plateau's: the paper's .1 of .5, for a teacher of any size."""

EARLY_THRESHOLD = 0.8
"""The same for repetition across samples: the paper's .4 of .5."""

SGD_RATE = 5e-3
"""Of plain SGD in Figure 15."""

TRAINED_ON = "training-distribution.parquet"
"""A run's first probe on sequences with the repetition of its training, beside its table."""

PROBE_SEQUENCES = 512
"""Of recall; a regression takes a quarter of it, its loss has less noise."""


_WIDE: dict[str, Any] = {"n_heads": 4, "d_model": 256, "d_head": 64, "d_mlp": 1024, "act_fn": "gelu"}


def recall_recipe(
    n_pairs: int,
    n_tokens: int,
    n_copies: float = 1.0,
    p: float = 0.0,
    seed: int = 0,
    budget: int = 4000,
    setting: Setting = "small",
    copies: Literal["forced", "bernoulli"] = "forced",
) -> Recipe:
    """Return associative recall by a transformer, saved every 50 steps (small) or 500 (paper).

    "small": two attention-only layers of one head, width 32, Adam at 3e-3; minutes on two cores. "paper": four layers
    of four heads, width 256, MLPs, pre-LayerNorm, N(0, 1) token embeddings, Adam at 1e-4; hours on a GPU.

    Source: Zucchet et al. (2025), arXiv:2505.17863, section 3.2 and Table 1. The paper leaves open the mask (causal
    here), where layer norms stand, and the initialisation.
    """
    task = AssociativeRecall(n_pairs, n_tokens, n_copies, p, copies)
    shape: dict[str, Any] = {"n_layers": 2, "n_heads": 1, "d_model": 32, "d_head": 32, "attn_only": True}
    init, rate, every = LinearInit(), 3e-3, 50
    if setting == "paper":
        shape = {**_WIDE, "n_layers": 4, "normalization_type": "LN"}
        init, rate, every = LinearInit("normal"), 1e-4, 500
    config = {"normalization_type": None, **shape, "n_ctx": task.n_ctx, "d_vocab": n_tokens}
    return Recipe(task, Architecture(config, init), _adam(rate, budget, every, seed))


def regression_recipe(
    n_positions: int,
    d: int,
    n_copies: int = 1,
    p: float = 0.0,
    seed: int = 0,
    budget: int = 2000,
    every: int = 10,
    n_layers: int = 2,
    n_heads: int = 4,
    positions: Literal["random", "fixed"] = "random",
    marked: bool = True,
    optimiser: Literal["adamw", "sgd"] = "adamw",
) -> Recipe:
    """Return sparse regression by the paper's transformer: width 256, head size 64, MLPs, no layer norm.

    By default two layers of four heads; the relevant positions are random and marked by a feature. Batches of 32;
    Adam at 1e-4, or plain SGD at 5e-3.

    Source: Zucchet et al. (2025), arXiv:2505.17863, section 3.1, Table 1 and, for the variants, Figures 13 to 15. The
    paper leaves open the mask (causal here), where the output is read (the last position), the activation (GELU) and
    the initialisation (PyTorch's).
    """
    task = SparseRegression(n_positions, d, n_copies, p, positions=positions, marked=marked, seed=seed)
    config = {
        **_WIDE, "n_layers": n_layers, "n_heads": n_heads, "normalization_type": None, "n_ctx": n_positions,
        "d_vocab": task.d_vocab, "d_vocab_out": d,
    }  # fmt: skip
    plan = _adam(1e-4, budget, every, seed)
    if optimiser == "sgd":
        plan = dataclasses.replace(plan, optimiser="sgd", learning_rate=SGD_RATE)
    return Recipe(task, Architecture(config, LinearInit()), plan)


def run_recall(runs: str, **parameters: Any) -> Mapping[str, float]:
    """Train and measure one recall model in a folder of its own under `runs`; return its emergence times.

    Returns `lo, hi` at accuracy 0.5, and `lo_5, hi_5` and so on for every threshold in percent (steps) above chance.

    Raises:
        ValueError: sizes out of range, or so small that chance reaches an accuracy of 0.5.
    """
    table = trained_recall(runs, **parameters)
    start = table.query("probe == 'Accuracy' and step == 0")["value"].item()
    bounds: dict[str, float] = {}
    for threshold in (each for each in RECALL_THRESHOLDS if each > start or each == FITTED):
        times = emergence_times(table, "Accuracy", "accuracy", threshold)
        bounds |= {f"{end}_{threshold:.0%}".rstrip("%"): float(times[end].item()) for end in ("lo", "hi")}
    return {"lo": bounds["lo_50"], "hi": bounds["hi_50"], **bounds}


def trained_recall(runs: str, *, progress: bool = False, **parameters: Any) -> pd.DataFrame:
    """Train and measure one recall model in a folder of its own under `runs`; return the table."""
    recipe = recall_recipe(**parameters)
    folder = run_path("recall", runs, **parameters)
    keep = parameters.get("setting") != "paper"
    return measured(recipe, folder, recall_probes(recipe), keep_weights=keep, progress=progress)


def run_regression(runs: str, **parameters: Any) -> Mapping[str, float]:
    """Train and measure one regression model in a folder of its own under `runs`; return its emergence times.

    Returns `lo, hi` at a fifth of the plateau's loss and `lo_80, hi_80` at four fifths (steps).
    """
    recipe = regression_recipe(**parameters)
    folder = run_path("regression", runs, **parameters)
    table = measured(recipe, folder, [Loss(), AttentionTo()], keep_weights=False)
    batch = _probe_batch(recipe)
    answers = batch.targets[batch.scored]
    of_zero = training_loss(torch.zeros_like(answers), answers).item()
    bounds: dict[str, float] = {}
    for suffix, share in (("", REGRESSION_THRESHOLD), ("_80", EARLY_THRESHOLD)):
        times = emergence_times(table, "Loss", "squared_error", share * of_zero, "down")
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
    progress: bool = False,
) -> pd.DataFrame:
    """Train into a run folder and measure every checkpoint, or read what was measured there before.

    Wide models take gigabytes a run: without `keep_weights` their checkpoints go once they are measured.
    """
    if (folder / run_folder.TABLE).exists():
        run_folder.claim(folder, recipe)
        return run_folder.read_table(folder)
    series = train(recipe, folder, progress=progress)
    if (batch := _training_batch(recipe)) is not None:
        measure(series, [type(probes[0])()], batch, save=folder / TRAINED_ON, progress=progress)
    table = measure(series, probes, _probe_batch(recipe), save=folder / run_folder.TABLE, progress=progress)
    if not keep_weights:
        shutil.rmtree(folder / "checkpoints")
        (folder / run_folder.RESUME).unlink()
    return table


def trained_on(folder: Path) -> pd.DataFrame:
    """Return a run's first probe on fresh sequences of its training distribution; without repetition, on the test's."""
    path = folder / TRAINED_ON
    return pd.read_parquet(path) if path.exists() else run_folder.read_table(folder)


def _training_batch(recipe: Recipe) -> Batch | None:
    """Return fresh sequences with the repetition of training, or None where the test is the same."""
    task: Any = recipe.task
    if task.p == 0 and task.n_copies == 1:
        return None
    return cast(Batch, task.sample(_n_probed(task), derive_seed(recipe.plan.seeds.evaluation, EVALUATION)))


def _n_probed(task: AbstractTask) -> int:
    return PROBE_SEQUENCES // 4 if isinstance(task, SparseRegression) else PROBE_SEQUENCES


def _probe_batch(recipe: Recipe) -> Batch:
    return recipe.task.probe_batch(_n_probed(recipe.task), recipe.plan.seeds.evaluation)


def recall_budget(n_pairs: int, n_tokens: int) -> int:
    """Return steps enough for the small model: 1.6 times the law of 21 earlier runs, in hundreds, at least 4000.

    >>> recall_budget(8, 64), recall_budget(12, 64)
    (4000, 7400)
    """
    law = 19.1 * math.pow(n_tokens, 0.34) * math.pow(n_pairs, 1.64)
    return max(4000, 100 * math.ceil(1.6 * law / 100))


def regression_budget(n_positions: int, d: int, n_copies: int, optimiser: str = "adamw") -> int:
    """Return steps enough for the transformer on regression, in hundreds.

    1.6 times the larger of the paper's law and that of 7 small runs made before; by SGD 1.6 times the paper's law.

    >>> regression_budget(32, 16, 1), regression_budget(256, 64, 1), regression_budget(16, 8, 1, "sgd")
    (900, 22000, 4000)
    """
    ratio = n_positions / n_copies
    law = max(0.76 * math.pow(ratio, 0.80) * math.pow(d, 1.29), 2.55 * math.pow(ratio, 0.63) * math.pow(d, 1.13))
    if optimiser == "sgd":
        law = 6.42 * math.pow(ratio, 1.07) * math.pow(d, 1.44)
    return 100 * math.ceil(1.6 * law / 100)


def _adam(rate: float, budget: int, every: int, seed: int) -> TrainPlan:
    fixed: dict[str, Any] = {"batch_size": 32, "weight_decay": 0.0, "clip": None}
    return TrainPlan(budget, learning_rate=rate, save=linear(every, budget), seeds=Seeds(seed, seed, seed), **fixed)
