"""Recall with layer norms, as the paper's text says, and without, as its table says, by the scale of embeddings."""

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
from stagewise.sweeping import parameter_grid

BUDGET = 4000

VARIANTS: dict[str, tuple[str | None, LinearInit]] = {
    "layer norm, N(0, 1)": ("LN", LinearInit("normal")),
    "none, N(0, 1)": (None, LinearInit("normal")),
    "layer norm, uniform": ("LN", LinearInit("uniform")),
    "none, uniform": (None, LinearInit("uniform")),
}
"""Norms and token embeddings, uniform ones within 1 over the root of the number of tokens."""


def figure_norms(request: FigureRequest) -> Result:
    """Train recall with each variant of norms and embeddings; draw test accuracy of the first seed.

    Source: Zucchet et al. (2025), arXiv:2505.17863, section 3.2 (with layer norms) and Table 1 (without); neither gives
    the scale of embeddings.
    """
    cases = [case | {"variant": name} for name in VARIANTS for case in parameter_grid(**request.axes)]
    recipes = [_recipe(case, request.budget or BUDGET) for case in cases]
    folders = [case | {"variant": list(VARIANTS).index(case["variant"])} for case in cases]
    tables = accuracies("norms", list(zip(folders, recipes, strict=True)), request)
    figure, (ax,) = panels(1)
    runs, first = [*zip(cases, tables, strict=True)], cases[0]
    shown = [(case["variant"], table) for case, table in runs if case | {"variant": first["variant"]} == first]
    draw_curves(ax, shown)
    ax.set(ylabel="test accuracy", ylim=(0, 1), title=f"{first['N_pairs']} pairs, seed {first['seed']}")
    return Result(figure, table_of([emerged(_name(case), "emerges", table) for case, table in runs]))


def _name(case: Mapping[str, Any]) -> str:
    return f"steps to accuracy .5, {case['variant']}: {case['N_pairs']} pairs, seed {case['seed']}"


def _recipe(case: Mapping[str, Any], budget: int) -> Recipe:
    base = recall_recipe(int(case["N_pairs"]), int(case["N_tokens"]), seed=int(case["seed"]), budget=budget)
    norm, init = VARIANTS[case["variant"]]
    config = {**base.architecture.config, "normalization_type": norm}
    return dataclasses.replace(base, architecture=Architecture(config, init))
