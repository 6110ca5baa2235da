"""Do all heads of a layer behave alike on recall? A model of several heads, and each head's attention at its end."""

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from stagewise.architectures import reshaped
from stagewise.papers.emergence._grids import FigureRequest
from stagewise.papers.emergence._panels import draw_curves, panels
from stagewise.papers.emergence._runs import measured, run_path
from stagewise.papers.emergence.recipes import recall_recipe
from stagewise.papers.published import Result, over_seeds, table_of
from stagewise.papers.running import run_each
from stagewise.probes import Accuracy, AttentionTo
from stagewise.sweeping import parameter_grid
from stagewise.table import select

BUDGET = 4000

PATTERNS = ("value to key", "query to value")
"""The two patterns that recall needs: copying, and selection."""


def figure_heads(request: FigureRequest) -> Result:
    """Train recall with several heads a layer, and draw each head's attention along both patterns of the first seed.

    A pattern's layer is the one with the largest mass on it at the end; its heads are alike where the smallest mass is
    near the largest.

    Source: Zucchet et al. (2025), arXiv:2505.17863, Figures 16 and 17: all heads of a layer behave alike.
    """
    cases = parameter_grid(**request.axes)
    one = functools.partial(_masses, request=request)
    tables = run_each(one, cases, request.workers, progress=request.progress)
    figure, axes = panels(len(PATTERNS) + 1)
    draw_curves(axes[-1], [("accuracy", select(tables[0], "Accuracy", "accuracy"))])
    rows = []
    for ax, pattern in zip(axes, PATTERNS, strict=False):
        of = [pattern_masses(table, pattern) for table in tables]
        curves = [(f"L{layer}H{head}", rows) for (layer, head), rows in of[0].groupby(["layer", "head"])]
        draw_curves(ax, curves)
        ax.set(ylabel="attention", ylim=(0, 1), title=f"{pattern}, seed {cases[0]['seed']}")
        ends = [masses[masses["step"] == masses["step"].max()]["value"] for masses in of]
        rows += [
            over_seeds(
                f"{pattern}: smallest mass of a head over the largest", "alike", [e.min() / e.max() for e in ends]
            ),
            over_seeds(f"{pattern}: largest mass of a head", "-", [end.max() for end in ends]),
        ]
    accuracies = [select(table, "Accuracy", "accuracy")["value"].iloc[-1] for table in tables]
    rows.append(over_seeds("accuracy at the end", "1", accuracies))
    return Result(figure, table_of(rows))


def pattern_masses(table: pd.DataFrame, pattern: str) -> pd.DataFrame:
    """Return the rows of a pattern's attention in the layer that has the largest mass on it at the last step."""
    masses = select(table, "AttentionTo", "along", relation=pattern)
    last = masses[masses["step"] == masses["step"].max()]
    largest = int(last["value"].to_numpy().argmax())
    layer = int(last["layer"].iloc[largest])
    return masses[masses["layer"] == layer]


def _masses(case: Mapping[str, Any], request: FigureRequest, progress: bool) -> pd.DataFrame:
    recipe = recall_recipe(
        int(case["N_pairs"]), int(case["N_tokens"]), seed=int(case["seed"]), budget=request.budget or BUDGET
    )
    recipe = dataclasses.replace(recipe, architecture=reshaped(recipe.architecture, int(case["N_heads"]), None))
    folder: Path = run_path("recall", request.folder / "runs", **case, budget=recipe.plan.steps)
    return measured(recipe, folder, [Accuracy(), AttentionTo()], progress=progress)
