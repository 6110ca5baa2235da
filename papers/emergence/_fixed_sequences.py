"""How many pairs emerge from fixed sequences at a large rate? Recall at a third party's setting."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from stagewise.architecture import Architecture
from stagewise.papers.emergence._grids import FigureRequest
from stagewise.papers.emergence._panels import draw_curves, panels
from stagewise.papers.emergence._recall_accuracy import accuracies, emerged
from stagewise.papers.emergence.recipes import recall_recipe
from stagewise.papers.linear_init import LinearInit
from stagewise.papers.published import Result, table_of
from stagewise.recipe import Recipe
from stagewise.schedules import linear
from stagewise.sweeping import parameter_grid

BUDGET, SEQUENCES, BATCH, RATE = 2000, 10_000, 128, 1e-2

PUBLISHED = "below 1000 at 32 pairs"


def figure_fixed(request: FigureRequest) -> Result:
    """Train recall on fixed sequences for each number of pairs and width; draw test accuracy of the first seed.

    Two attention-only layers, Adam at 1e-2, 10,000 sequences. The source leaves open the batch (128 here), the heads
    (one), and the weights' initialisation (token embeddings N(0, 1), sinusoids).

    Source: Liu (2026), Sparse attention 6: in-context associative recall,
    https://kindxiaoming.github.io/blog/2026/sparse-attention-6
    """
    cases = parameter_grid(**request.axes)
    recipes = [fixed_recipe(case, request.budget or BUDGET) for case in cases]
    tables = accuracies("fixed", list(zip(cases, recipes, strict=True)), request)
    figure, (ax,) = panels(1)
    first = [(case, table) for case, table in zip(cases, tables, strict=True) if case["seed"] == cases[0]["seed"]]
    draw_curves(ax, [(f"{case['N_pairs']} pairs, width {case['width']}", table) for case, table in first])
    ax.set(ylabel="test accuracy", ylim=(0, 1), title=f"{SEQUENCES:,} sequences, seed {cases[0]['seed']}")
    told = [emerged(_name(case), PUBLISHED, table) for case, table in zip(cases, tables, strict=True)]
    return Result(figure, table_of(told))


def _name(case: Mapping[str, Any]) -> str:
    return f"steps to accuracy .5, {case['N_pairs']} pairs, width {case['width']}, seed {case['seed']}"


def fixed_recipe(case: Mapping[str, Any], budget: int) -> Recipe:
    """Return the recipe of a case: `N_pairs`, `N_tokens`, `width` and `seed`."""
    base = recall_recipe(int(case["N_pairs"]), int(case["N_tokens"]), seed=int(case["seed"]), budget=budget)
    width = int(case["width"])
    config = {**base.architecture.config, "d_model": width, "d_head": width}
    save = linear(50, min(budget, 500)) | linear(100, budget)
    plan = dataclasses.replace(base.plan, batch_size=BATCH, learning_rate=RATE, save=save)
    task: Any = base.task
    return Recipe(dataclasses.replace(task, n_sequences=SEQUENCES), Architecture(config, LinearInit("normal")), plan)
