"""Recipes of the transformers on sparse regression and associative recall."""

import dataclasses
import math
from typing import Any, Literal

from stagewise.architecture import Architecture
from stagewise.papers.linear_init import LinearInit
from stagewise.papers.tasks import AssociativeRecall, SparseRegression
from stagewise.presets import recipe_for
from stagewise.recipe import Recipe
from stagewise.schedules import linear

_Setting = Literal["small", "paper"]

_SGD_RATE = 5e-3
"""The rate of plain SGD in Figure 15."""

RECALL_BATCH = 32
"""Sequences an update of recall, as published."""


def recall_recipe(
    n_pairs: int,
    n_tokens: int,
    n_copies: float = 1.0,
    p: float = 0.0,
    seed: int = 0,
    budget: int = 4000,
    setting: _Setting = "small",
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
    sizes: dict[str, Any] = {"n_pairs": n_pairs, "n_tokens": n_tokens, "n_copies": n_copies, "p": p, "copies": copies}
    small = recipe_for(AssociativeRecall, seed=seed, **sizes)
    plan = dataclasses.replace(small.plan, steps=budget, batch_size=batch_size, save=linear(50, budget))
    if setting == "small":
        return dataclasses.replace(small, plan=plan)
    every = 50 * max(1, round(published_recall(n_pairs, n_tokens) / 2000))
    config = {
        "normalization_type": "LN", "n_heads": 4, "d_model": 256, "d_head": 64, "d_mlp": 1024, "act_fn": "gelu",
        "n_layers": 4, "n_ctx": small.task.n_ctx, "d_vocab": n_tokens,
    }  # fmt: skip
    plan = dataclasses.replace(plan, learning_rate=1e-4, save=linear(every, budget))
    return Recipe(small.task, Architecture(config, LinearInit("normal")), plan)


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
    sizes: dict[str, Any] = {"n_positions": n_positions, "d": d, "n_copies": n_copies, "p": p}
    recipe = recipe_for(SparseRegression, seed=seed, **sizes, positions=positions, marked=marked)
    config = {**recipe.architecture.config, "n_layers": n_layers, "n_heads": n_heads}
    plan = dataclasses.replace(recipe.plan, steps=budget, save=linear(every, budget))
    if optimiser == "sgd":
        plan = dataclasses.replace(plan, optimiser="sgd", learning_rate=_SGD_RATE)
    return Recipe(recipe.task, dataclasses.replace(recipe.architecture, config=config), plan)


def published_recall(n_pairs: int, n_tokens: int) -> float:
    """Return the steps until recall emerges in the paper's model, by its law.

    Source: Zucchet et al. (2025), arXiv:2505.17863, Figure 4.

    >>> round(published_recall(8, 32)), round(published_recall(32, 256))
    (915, 107019)
    """
    return 0.55 * math.pow(n_tokens, 0.79) * math.pow(n_pairs, 2.25)


def recall_budget(n_pairs: int, n_tokens: int) -> int:
    """Return steps enough for the small model: those of its preset.

    >>> recall_budget(8, 64), recall_budget(12, 64)
    (4000, 7400)
    """
    return recipe_for(AssociativeRecall, n_pairs=n_pairs, n_tokens=n_tokens).plan.steps


def regression_budget(n_positions: int, d: int, n_copies: int, optimiser: str = "adamw") -> int:
    """Return steps enough for the transformer on regression, in hundreds: those of the preset, by Adam.

    By SGD, whose seeds differ most, they are four times the paper's law.

    >>> regression_budget(32, 16, 1), regression_budget(256, 64, 1), regression_budget(16, 8, 1, "sgd")
    (900, 22000, 10000)
    """
    if optimiser == "sgd":
        return 100 * math.ceil(4 * 6.42 * math.pow(n_positions / n_copies, 1.07) * math.pow(d, 1.44) / 100)
    return recipe_for(SparseRegression, n_positions=n_positions, d=d, n_copies=n_copies).plan.steps
