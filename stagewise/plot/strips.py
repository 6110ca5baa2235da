"""Heads over training: strips whose values are colours."""

import math

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from stagewise.findings import Stages
from stagewise.plot import axes as step_axis
from stagewise.plot.axes import SCALE, cells, head_colours, ink, ordered_colours, over_cells
from stagewise.plot.curves import quantity_of
from stagewise.table import head_label, select

_LABELLED = 36
"""Heads whose names fit beside a matrix."""


def ablation_with_control(
    table: pd.DataFrame, kind: str = "zero", quantity: str = "kl", stages: Stages | None = None
) -> Figure:
    """Draw the effect of each head's ablation at each step, nats, and that of its control, on one colour scale.

    Args:
        table: with `HeadAblation` rows.
        kind: of ablation.
        quantity: "kl" or "loss_change".
        stages: whose boundaries are drawn.

    Source: Michel et al. (2019), Are Sixteen Heads Really Better than One?, arXiv:1905.10650.
    """
    rows = select(table, "HeadAblation", quantity, kind=kind)
    lowest, largest = min(0.0, float(rows["value"].min())), float(rows["value"].max())
    controls = rows["control"].unique().tolist()
    heads = len(rows[["layer", "head"]].drop_duplicates())
    figure, axes = step_axis.panels(len(controls), len(controls) * (1.15 + _rows_height(heads)))
    for control, ax in zip(controls, axes, strict=True):
        wide = _by_head(rows[rows["control"] == control])
        mesh = cells(ax, wide, cmap=SCALE, vmin=lowest, vmax=largest)
        figure.colorbar(mesh, ax=ax, pad=0.02, label=quantity_of(table, "HeadAblation", quantity).axis)
        _finish_strip(ax, wide, stages)
        what = "the head" if control == "head" else f"a {control}"
        ax.set_title(f"{kind} ablation of {what}", loc="left", fontsize=9.5, pad=6 if stages is None else 18)
    return figure


def effects(table: pd.DataFrame, probe: str, quantity: str, stages: Stages | None = None) -> Axes:
    """Draw a signed effect of each head at each step: red where it helps, blue where it hurts."""
    rows = select(table, probe, quantity)
    wide, largest = _by_head(rows), float(rows["value"].abs().max()) or 1.0
    ax = step_axis.new_axes(None, 7.6, 1.1 + _rows_height(len(wide)))
    mesh = cells(ax, wide, cmap="RdBu_r", vmin=-largest, vmax=largest)
    ax.figure.colorbar(mesh, ax=ax, pad=0.02, label=quantity_of(table, probe, quantity).unit)
    _finish_strip(ax, wide, stages)
    ax.set_title(quantity_of(table, probe, quantity).label, loc="left", fontsize=9.5, pad=6 if stages is None else 18)
    return ax


def heads_over_training(table: pd.DataFrame, stages: Stages | None = None, ax: Axes | None = None) -> Axes:
    """Draw each head's attention at each step: the colour of its relation, the fuller the more it attends there.

    White is the attention of uniform attention or less, the full colour all of it. Where there are many heads, those
    are shown whose attention to a relation changes most; of one checkpoint those that attend most.

    Args:
        table: with rows of attention along relations, `AttentionTo`.
    """
    beyond = beyond_uniform(table)
    colours = ordered_colours(beyond["relation"].drop_duplicates().tolist())
    by_relation = beyond.groupby(["layer", "head", "relation"])["value"]
    change = by_relation.max() - (by_relation.min() if beyond["step"].nunique() > 1 else 0)
    most = change.groupby(["layer", "head"]).max().nlargest(_LABELLED).index
    largest = beyond.sort_values("value", ascending=False, kind="stable").drop_duplicates(["layer", "head", "step"])
    heads, relations = (_by_head(largest, of).loc[sorted(most)] for of in ("value", "relation"))
    full = np.array([to_rgb(colours[name]) for name in relations.to_numpy().ravel()]).reshape(*heads.shape, 3)
    image = 1 - heads.to_numpy(float)[:, :, None] * (1 - full)
    ax = step_axis.new_axes(ax, 7.6, 1.1 + _rows_height(len(heads)))
    cells(ax, heads, image)
    _finish_strip(ax, heads, stages)
    patches = [Patch(color=colour, label=name) for name, colour in colours.items()]
    ax.figure.legend(handles=patches, loc="outside right upper", frameon=False, fontsize=8.5)
    return ax


def beyond_uniform(table: pd.DataFrame) -> pd.DataFrame:
    """Return how far each head's attention along each relation goes beyond that of uniform attention: 0 to 1."""
    along = select(table, "AttentionTo", "along")
    uniform = table[(table["probe"] == "AttentionTo") & (table["quantity"] == "uniform")]
    chance = along["relation"].map(uniform.groupby("relation")["value"].mean()).fillna(0).clip(upper=0.99)
    return along.assign(value=((along["value"] - chance) / (1 - chance)).clip(0, 1).fillna(0))


def _rows_height(heads: int) -> float:
    """Return the height of a strip of heads, inches."""
    return min(0.32 * heads, 8.0)


def _by_head(rows: pd.DataFrame, of: str = "value") -> pd.DataFrame:
    step_axis.check_one_run(rows)
    return rows.pivot(index=["layer", "head"], columns="step", values=of).sort_index()


def _finish_strip(ax: Axes, wide: pd.DataFrame, stages: Stages | None) -> None:
    over_cells(ax, wide.columns.to_numpy(), stages)
    every = math.ceil(len(wide) / _LABELLED)
    named = list(wide.index[::every])
    ax.set_yticks(range(0, len(wide), every), [head_label(*head) for head in named])
    ax.set_ylim(len(wide) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    colours = head_colours(wide.index.to_frame(index=False))
    for tick, head in zip(ax.get_yticklabels(), named, strict=True):
        tick.set(color=ink(colours[head]), fontweight="bold")
