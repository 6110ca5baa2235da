"""Do embeddings that are drawn anew at every step hasten recall? Beside learned ones, at a setting of our own."""

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

from stagewise.architecture import Architecture
from stagewise.papers.emergence._fixed_sequences import fixed_recipe
from stagewise.papers.emergence._grids import FigureRequest
from stagewise.papers.emergence._panels import draw_curves, panels
from stagewise.papers.emergence._recall_accuracy import accuracies, steps_to
from stagewise.papers.emergence.shared_embeddings import SharedEmbeddings
from stagewise.papers.published import Result, over_some, table_of
from stagewise.recipe import Recipe
from stagewise.sweeping import parameter_grid

BUDGET = 1000

EMBEDDINGS = {"learned": SharedEmbeddings(), "resampled": SharedEmbeddings(resampled=True)}

_LEARNED = 0.8
"""The test accuracy to which steps are counted: one of the values by chance has .25 with four pairs."""


def figure_embeddings(request: FigureRequest) -> Result:
    """Train recall with embeddings that are learned or drawn anew at every step; draw the first seed's test accuracy.

    All else as in `figure_fixed`; embeddings read the answers too, and the test has those of one draw. The sizes are
    ours: the source has 32 pairs, 64 tokens, widths 80 and 256 and up to 10,000 steps, and leaves its batch, its
    initialisation and how answers are read to code that could not be read here.

    Source: Liu (2026), Sparse attention 8, https://kindxiaoming.github.io/blog/2026/sparse-attention-8
    """
    sizes = parameter_grid(**{name: values for name, values in request.axes.items() if name != "seed"})
    seeds = request.axes["seed"]
    runs = [
        ({**size, "embeddings": kind, "seed": seed}, _recipe({**size, "seed": seed}, kind, request.budget or BUDGET))
        for size, kind, seed in itertools.product(sizes, EMBEDDINGS, seeds)
    ]
    tables = iter(accuracies("embeddings", runs, request))
    figure, axes = panels(len(sizes))
    rows = []
    for ax, size in zip(axes, sizes, strict=True):
        of = {kind: [next(tables) for _ in seeds] for kind in EMBEDDINGS}
        draw_curves(ax, [(kind, curves[0]) for kind, curves in of.items()])
        ax.set(ylabel="test accuracy", ylim=(0, 1), title=f"{_name(size)}, seed {seeds[0]}")
        for kind, curves in of.items():
            steps, last = [steps_to(_LEARNED, table) for table in curves], [table["value"].iloc[-1] for table in curves]
            rows.append(over_some(f"steps to accuracy .8, {_name(size)}, {kind}", "-", steps))
            rows.append(over_some(f"last accuracy, {_name(size)}, {kind}", "-", last))
    return Result(figure, table_of(rows))


def _name(size: Mapping[str, Any]) -> str:
    return f"{size['N_pairs']} pairs, width {size['width']}"


def _recipe(case: Mapping[str, Any], kind: str, budget: int) -> Recipe:
    base = fixed_recipe(case, budget)
    return dataclasses.replace(base, architecture=Architecture(base.architecture.config, EMBEDDINGS[kind]))
