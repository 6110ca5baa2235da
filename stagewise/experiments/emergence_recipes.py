"""Transformers on sparse regression and associative recall: recipes, and a run from training to its emergence time."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from stagewise import folder as run_folder
from stagewise.architecture import Architecture
from stagewise.emergence import emergence_times
from stagewise.init import LinearInit
from stagewise.measurement import measure
from stagewise.probe import AbstractProbe
from stagewise.probes import Accuracy, AttentionAlong, Loss
from stagewise.recipe import Recipe, Seeds, TrainPlan
from stagewise.schedule import linear
from stagewise.tasks import AssociativeRecall, SparseRegression
from stagewise.training import train

Setting = Literal["small", "paper"]

RECALL_THRESHOLDS = (0.05, 0.2, 0.5, 0.9)
"""Accuracies whose times are reported. The paper's 5 % is chance level for small sizes; fits take 50 %."""

REGRESSION_THRESHOLD = 0.1
"""Test loss, of 0.5 at the start."""

PROBE_SEQUENCES = 512
"""Of recall; a regression takes a quarter of it, its loss has less noise."""


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
    n_positions: int, d: int, n_copies: int = 1, p: float = 0.0, seed: int = 0, budget: int = 2000, every: int = 10
) -> Recipe:
    """Return sparse regression by the paper's transformer: two layers of four heads, width 256, no layer norm.

    The relevant positions are random and marked by a feature. Adam at 1e-4, batches of 32.

    Source: Zucchet et al. (2025), arXiv:2505.17863, section 3.1 and Table 1. The paper leaves open the mask (causal
    here), where the output is read (the last position), the activation (GELU) and the initialisation (PyTorch's).
    """
    task = SparseRegression(n_positions, d, n_copies, p, positions="random", marked=True, seed=seed)
    config = {
        **_WIDE, "n_layers": 2, "normalization_type": None, "n_ctx": n_positions, "d_vocab": task.d_vocab,
        "d_vocab_out": d,
    }  # fmt: skip
    return Recipe(task, Architecture(config, LinearInit()), _adam(1e-4, budget, every, seed))


def run_recall(runs: str, **parameters: Any) -> Mapping[str, float]:
    """Train and measure one recall model in a folder of its own under `runs`; return its emergence times.

    Returns `lo, hi` at accuracy 0.5, and `lo_5, hi_5` and so on for every threshold in percent (steps; a threshold
    that chance already passes has none).
    """
    recipe = recall_recipe(**parameters)
    table = measured(recipe, run_path(runs, "recall", parameters), [Accuracy(), Loss(), AttentionAlong()])
    found: dict[str, float] = {}
    start = table.query("probe == 'Accuracy' and step == 0")["value"].item()
    for threshold in (threshold for threshold in RECALL_THRESHOLDS if threshold > start):
        times = emergence_times(table, "Accuracy", "accuracy", threshold)
        found |= {f"{end}_{threshold:.0%}".rstrip("%"): float(times[end].item()) for end in ("lo", "hi")}
    return {"lo": found["lo_50"], "hi": found["hi_50"], **found}


def run_regression(runs: str, **parameters: Any) -> Mapping[str, float]:
    """Train and measure one regression model in a folder of its own under `runs`; return `lo, hi` (steps)."""
    recipe = regression_recipe(**parameters)
    table = measured(recipe, run_path(runs, "regression", parameters), [Loss(), AttentionAlong()])
    times = emergence_times(table, "Loss", "squared_error", REGRESSION_THRESHOLD, "down")
    return {end: float(times[end].item()) for end in ("lo", "hi")}


def run_path(runs: str | Path, kind: str, parameters: Mapping[str, Any]) -> Path:
    """Return the folder of a run, named by its parameters.

    >>> run_path("runs", "recall", {"n_pairs": 8, "seed": 0}).as_posix()
    'runs/recall-n_pairs=8-seed=0'
    """
    return Path(runs) / "-".join([kind, *(f"{name}={value}" for name, value in parameters.items())])


def measured(recipe: Recipe, folder: Path, probes: Sequence[AbstractProbe]) -> pd.DataFrame:
    """Train into a run folder and measure every checkpoint, or read what was measured there before."""
    if (folder / run_folder.TABLE).exists():
        run_folder.claim(folder, recipe)
        return run_folder.read_table(folder)
    series = train(recipe, folder, progress=False)
    n = PROBE_SEQUENCES // 4 if isinstance(recipe.task, SparseRegression) else PROBE_SEQUENCES
    batch = recipe.task.probe_batch(n, recipe.plan.seeds.evaluation)
    table = measure(series, probes, batch, progress=False)
    run_folder.write(folder / run_folder.TABLE, lambda partial: table.to_parquet(partial, index=False))
    return table


_WIDE: dict[str, Any] = {"n_heads": 4, "d_model": 256, "d_head": 64, "d_mlp": 1024, "act_fn": "gelu"}


def recall_budget(n_pairs: int, n_tokens: int) -> int:
    """Return steps enough for the small model, in hundreds: 1.6 times the law that 21 earlier runs followed.

    >>> recall_budget(8, 64)
    3900
    """
    law = 19.1 * math.pow(n_tokens, 0.34) * math.pow(n_pairs, 1.64)
    return 100 * math.ceil(1.6 * law / 100)


def _adam(rate: float, budget: int, every: int, seed: int) -> TrainPlan:
    return TrainPlan(
        steps=budget,
        batch_size=32,
        learning_rate=rate,
        weight_decay=0.0,
        clip=None,
        save=linear(every, budget),
        seeds=Seeds(seed, seed, seed),
    )
