"""Settings of incremental learning's released configurations beside those of the recipes here; no training."""

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from stagewise.papers.incremental.paper_block import PaperBlockInit
from stagewise.papers.incremental.recipes import variants
from stagewise.papers.published import Result, number, table_of
from stagewise.recipe import Recipe

_CHAIN = {"d": 50, "T": 20, "groups": 3, "m": 1.7, "temperature": 0.1, "sequences": 9000}

_ADAMW = {"batch": 3000, "weight decay": 0.01, "clip": 1.0, "heads": 3}

_BLOCK = {"width": 255, "head size": 85, "MLP": 64, "lags of a group": 4}

RELEASED: dict[str, dict[str, int | float]] = {
    "base": {**_CHAIN, **_ADAMW, "learning rate": 0.08, "lags of a group": 2, "layers": 1, "scale of W_Q": 1e-9},
    "full": {**_CHAIN, **_ADAMW, **_BLOCK, "learning rate": 0.003, "steps": 2000, "layers": 1, "dropout": 0.1},
    "full-layers=2": {**_ADAMW, **_BLOCK, "sequences": 27_000, "learning rate": 0.001, "layers": 2},
    "full-sgd": {**_BLOCK, "m": 2.0, "learning rate": 0.2, "momentum": 0.9},
    "layers=2": {**_ADAMW, "sequences": 27_000, "m": 1.8, "lags of a group": 4, "learning rate": 0.04, "layers": 2},
}
"""By variant, at the paper's size; the paper's own four tables are not known to us.

Source: the code released with Yüksel et al. (2026), arXiv:2602.19143.
"""


def figure_settings() -> Result:
    """Draw nothing but a table: every released setting, and that of the recipe of its variant, with the paper's block.

    Raises:
        KeyError: a recipe has no such setting.
    """
    recipes = {**variants("paper"), **variants("paper", block=True)}
    rows = []
    for variant, released in RELEASED.items():
        ours = settings_of(recipes[variant])
        others = [name for name, value in released.items() if ours[name] != value]
        alike = f"{len(released) - len(others)} of {len(released)}"
        rows.append(number(f"{variant}: settings as released", "all", alike, remark=", ".join(others)))
        rows += [number(f"{variant}: {name}", f"{value:g}", f"{ours[name]:g}") for name, value in released.items()]
    figure = Figure(figsize=(6, 0.2 * len(rows)), layout="constrained")
    ax = figure.subplots()
    ax.axis("off")
    ax.table([[row[name] for name in ("quantity", "published", "ours")] for row in rows], loc="center")
    return Result(figure, table_of(rows))


def settings_of(recipe: Recipe) -> Mapping[str, int | float]:
    """Return a recipe's settings by the names of `RELEASED`.

    >>> settings_of(variants("paper")["base"])["learning rate"]
    0.08
    """
    task, plan, config = recipe.task, recipe.plan, recipe.architecture.config
    init: Any = recipe.architecture.init
    chain: Any = task
    return {
        "d": task.d_vocab,
        "T": chain.length,
        "groups": len(chain.spans),
        "lags of a group": chain.spans[0],
        "m": chain.importance,
        "temperature": chain.temperature,
        "sequences": chain.n_sequences,
        "batch": plan.batch_size,
        "steps": plan.steps,
        "learning rate": plan.learning_rate,
        "weight decay": plan.weight_decay,
        "momentum": plan.momentum,
        "clip": plan.clip or 0.0,
        "layers": config["n_layers"],
        "heads": config["n_heads"],
        "width": config["d_model"],
        "head size": config["d_head"],
        "MLP": config.get("d_mlp", 0),
        "dropout": init.dropout if isinstance(init, PaperBlockInit) else 0.0,
        "scale of W_Q": getattr(init, "query_scale", 0.0),
    }
