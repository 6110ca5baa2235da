"""Recipes of the transformers on sparse regression and associative recall."""

import dataclasses
import math
from typing import Any, Literal

from stagewise.architecture import Architecture
from stagewise.init import LinearInit
from stagewise.plan import linear
from stagewise.recipe import Recipe, Seeds, TrainPlan
from stagewise.tasks import AssociativeRecall, SparseRegression

Setting = Literal["small", "paper"]

SGD_RATE = 5e-3
"""Of plain SGD in Figure 15."""

RECALL_BATCH = 32
"""Sequences an update of recall, as published."""

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
    batch_size: int = RECALL_BATCH,
) -> Recipe:
    """Return associative recall by a transformer, saved every 50 steps, or some 40 times until the paper's law.

    "small": two attention-only layers of one head, width 32, Adam at 3e-3; minutes on two cores. "paper": four layers
    of four heads, width 256, MLPs, pre-LayerNorm, N(0, 1) token embeddings, Adam at 1e-4; hours on a GPU. Batches of
    32, if not given, as in the paper.

    Source: Zucchet et al. (2025), arXiv:2505.17863, section 3.2 and Table 1. The paper leaves open the mask (causal
    here), where layer norms stand, and the initialisation.
    """
    task = AssociativeRecall(n_pairs, n_tokens, n_copies, p, copies)
    shape: dict[str, Any] = {"n_layers": 2, "n_heads": 1, "d_model": 32, "d_head": 32, "attn_only": True}
    init, rate, every = LinearInit(), 3e-3, 50
    if setting == "paper":
        shape = {**_WIDE, "n_layers": 4, "normalization_type": "LN"}
        init, rate, every = LinearInit("normal"), 1e-4, 50 * max(1, round(published_recall(n_pairs, n_tokens) / 2000))
    config = {"normalization_type": None, **shape, "n_ctx": task.n_ctx, "d_vocab": n_tokens}
    plan = dataclasses.replace(_adam(rate, budget, every, seed), batch_size=batch_size)
    return Recipe(task, Architecture(config, init), plan)


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


def published_recall(n_pairs: int, n_tokens: int) -> float:
    """Return the steps until recall emerges in the paper's model, by its law.

    Source: Zucchet et al. (2025), arXiv:2505.17863, Figure 4.

    >>> round(published_recall(8, 32)), round(published_recall(32, 256))
    (915, 107019)
    """
    return 0.55 * math.pow(n_tokens, 0.79) * math.pow(n_pairs, 2.25)


def recall_budget(n_pairs: int, n_tokens: int) -> int:
    """Return steps enough for the small model: 1.6 times the law of 21 earlier runs, in hundreds, at least 4000.

    >>> recall_budget(8, 64), recall_budget(12, 64)
    (4000, 7400)
    """
    law = 19.1 * math.pow(n_tokens, 0.34) * math.pow(n_pairs, 1.64)
    return max(4000, 100 * math.ceil(1.6 * law / 100))


def regression_budget(n_positions: int, d: int, n_copies: int, optimiser: str = "adamw") -> int:
    """Return steps enough for the transformer on regression, in hundreds.

    1.6 times the larger of the paper's law and that of 7 small runs made before, 400 at least; by SGD, whose seeds
    differ most, four times the paper's law.

    >>> regression_budget(32, 16, 1), regression_budget(256, 64, 1), regression_budget(16, 8, 1, "sgd")
    (900, 22000, 10000)
    """
    ratio = n_positions / n_copies
    if optimiser == "sgd":
        return 100 * math.ceil(4 * 6.42 * math.pow(ratio, 1.07) * math.pow(d, 1.44) / 100)
    law = max(0.76 * math.pow(ratio, 0.80) * math.pow(d, 1.29), 2.55 * math.pow(ratio, 0.63) * math.pow(d, 1.13))
    return max(400, 100 * math.ceil(1.6 * law / 100))


def _adam(rate: float, budget: int, every: int, seed: int) -> TrainPlan:
    fixed: dict[str, Any] = {"batch_size": 32, "weight_decay": 0.0, "clip": None}
    return TrainPlan(budget, learning_rate=rate, save=linear(every, budget), seeds=Seeds(seed, seed, seed), **fixed)
