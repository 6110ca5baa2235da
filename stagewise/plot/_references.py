"""KL to references, and of the model to itself with restricted context: one curve a reference or context."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes

from stagewise.findings.frames import families
from stagewise.findings.stages import Stages
from stagewise.plot._curves import family, finish, theory_curves
from stagewise.plot.colours import ordered_colours
from stagewise.plot.quantities import quantity_of, set_value_axis
from stagewise.plot.step_axis import new_axes
from stagewise.table import select

_KL_FLOOR = 1e-3
"""Nats below which a log scale shows nothing that matters: a hundredth of the smallest effects reported."""


def kl_curves(
    table: pd.DataFrame,
    references: Sequence[str] | None = None,
    stages: Stages | None = None,
    theory: pd.DataFrame | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw KL(reference || model) over training, nats, one line a reference, theory dashed.

    Args:
        table: with `KLToReference` rows.
        references: which ones; None takes the nested partial solutions, or all if there are none.
        theory: rows with the same columns.

    Source: Yüksel et al. (2026), arXiv:2602.19143, Figures 1 and 3 (left).
    """
    rows = select(table, "KLToReference", "kl")
    references_measured = [str(name) for name in rows["reference"].unique()]
    names = list(references or families(rows)["nested"] or references_measured)
    if unknown := sorted(set(names) - set(references_measured)):
        raise ValueError(f"the table has no KL to {', '.join(unknown)}; it has {', '.join(references_measured)}")
    rows = rows[rows["reference"].isin(names)]
    ax = family(new_axes(ax), rows, "reference", names, stages, lambda name: f"KL to {name}")
    if theory is not None:
        theory_curves(ax, select(theory, "KLToReference", "kl"), "reference", ordered_colours(names))
    set_value_axis(ax, quantity_of(table, "KLToReference", "kl"))
    return finish(ax, bottom=0.0)


def restricted_context(table: pd.DataFrame, stages: Stages | None = None, ax: Axes | None = None) -> Axes:
    """Draw KL(model || model with its context restricted to c positions) over training, nats (log scale), a line a c.

    Source: Yüksel et al. (2026), arXiv:2602.19143, Figure 3 (right), with the model's own context restricted.
    """
    rows = select(table, "RestrictedContextKL", "kl")
    contexts = sorted(rows["context"].unique())
    ax = family(new_axes(ax), rows, "context", contexts, stages, lambda context: f"c = {context}")
    set_value_axis(ax, quantity_of(table, "RestrictedContextKL", "kl"))
    ax.set_yscale("log")
    return finish(ax, bottom=_KL_FLOOR)
