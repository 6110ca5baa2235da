"""Curves over training: the loss, KL to references and contexts, and what families of curves share."""

import textwrap
from collections.abc import Callable, Sequence

import pandas as pd
from matplotlib.axes import Axes

from stagewise.findings import Stages, scores
from stagewise.findings.scores import quantities_of
from stagewise.plot import axes as step_axis
from stagewise.plot.axes import marker, ordered_colours
from stagewise.table import Quantity, families, head_label, select
from stagewise.words import headed

_LABEL_WIDTH = 30
"""Characters of an axis label before it continues on a second line."""

_NEAR = 0.5
"""Part of a value axis from 0 that may be empty below the curves."""

_Name = Callable[[object], str]

_LOSSES = ("excess", "cross_entropy", "squared_error")
"""Quantities of the `Loss` probe: the first that a table has is drawn."""

_KL_FLOOR = 1e-3
"""Nats below which a log scale shows nothing that matters: a hundredth of the smallest effects reported."""

BLACK = "#222222"
"""The colour of curves of the whole model."""


def quantity_of(table: pd.DataFrame, probe: str, name: str) -> Quantity:
    """Return the declaration of a quantity: as the table declares it, or this library's probe of that name."""
    return quantities_of(table).get(probe, {}).get(name) or Quantity(name.replace("_", " "))


def set_value_axis(ax: Axes, quantity: Quantity, width: int = _LABEL_WIDTH) -> None:
    """Write the label with its unit on the y axis, and let the axis end where the quantity's range does. A lower end
    far below the curves is left out: call it when they are drawn.
    """
    ax.set_ylabel(escaped(textwrap.fill(quantity.axis, width)))
    (lo, hi), (least, most) = quantity.range, ax.get_ylim()
    if lo is not None and (hi is not None or least - lo < _NEAR * (most - lo)):
        ax.set_ylim(bottom=lo)
    if hi is not None:
        ax.set_ylim(top=hi)


def axes_of(rows: pd.DataFrame) -> list[str]:
    """Return the axes that the rows of a quantity have, layer and head first."""
    axes = scores.axes_of(rows)
    if "reference" in axes and "context" in axes:
        axes.remove("context")  # that a reference's model was trained on: it describes the reference, and is no axis
    return sorted(axes, key=lambda name: {"layer": 0, "head": 1}.get(name, 2))


def labels_in_words(labels: dict[str, object]) -> str:
    """Name a line by its labels on the axes of a table."""
    labels = {name: label for name, label in labels.items() if not pd.isna(label)}  # type: ignore[call-overload]
    words = []
    if {"layer", "head"} <= labels.keys():
        words.append(head_label(int(str(labels.pop("layer"))), int(str(labels.pop("head")))))
    words += [label if isinstance(label, str) else f"{name} {label}" for name, label in labels.items()]
    return ", ".join(words)


def escaped(text: str) -> str:
    """Return text as matplotlib draws it letter by letter: a dollar begins no formula."""
    return text.replace("$", r"\$")


def loss_curve(
    table: pd.DataFrame, stages: Stages | None = None, theory: pd.DataFrame | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the excess loss over training, nats; the cross-entropy or squared error where there is no excess.

    Source: Yüksel et al. (2026), arXiv:2602.19143, Figures 1 and 4.
    """
    losses = select(table, "Loss")
    name = next(name for name in _LOSSES if name in set(losses["quantity"]))
    quantity, rows = quantity_of(table, "Loss", name), losses[losses["quantity"] == name]
    ax = prepared(step_axis.new_axes(ax, height=2.4), rows, stages)
    step_axis.curve(ax, rows, quantity.label, BLACK, "o")
    if theory is not None:
        step_axis.curve(ax, select(theory, "Loss", name), "theory", BLACK, theory=True)
    set_value_axis(ax, quantity)
    return finish(ax, bottom=0.0 if name == "excess" and rows["value"].min() >= 0 else None)


def training_loss(metrics: pd.DataFrame, stages: Stages | None = None, ax: Axes | None = None) -> Axes:
    """Draw the loss of every training batch, nats, from the frame of training metrics (`step`, `loss`)."""
    ax = prepared(step_axis.new_axes(ax, height=2.4), metrics, stages)
    step_axis.curve(ax, metrics[["step", "loss"]].rename(columns={"loss": "value"}), "training batch", BLACK)
    ax.set_ylabel("training loss, nats")
    return finish(ax)


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
    ax = family(step_axis.new_axes(ax), rows, "reference", names, stages, lambda name: f"KL to {name}")
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
    ax = family(step_axis.new_axes(ax), rows, "context", contexts, stages, lambda context: f"c = {context}")
    set_value_axis(ax, quantity_of(table, "RestrictedContextKL", "kl"))
    ax.set_yscale("log")
    return finish(ax, bottom=_KL_FLOOR)


def family(
    ax: Axes,
    rows: pd.DataFrame,
    axis: str,
    labels: Sequence[object],
    stages: Stages | None,
    name: _Name = str,
    small: bool = False,
) -> Axes:
    """Draw a line for each label on an axis of the table, in ordered colours."""
    prepared(ax, rows, stages, small)
    for i, (label, colour) in enumerate(ordered_colours(labels).items()):
        step_axis.curve(ax, rows[rows[axis] == label], name(label), colour, marker(i))
    return ax


def theory_curves(ax: Axes, rows: pd.DataFrame, axis: str, colours: dict[object, str]) -> None:
    """Draw a theory's prediction, dashed, in the colours of the measurement."""
    for label, colour in colours.items():
        line = rows[rows[axis] == label]
        if len(line):
            step_axis.curve(ax, line, f"_theory {label}", colour, theory=True)


def prepared(ax: Axes, rows: pd.DataFrame, stages: Stages | None, small: bool = False) -> Axes:
    """Give the axes their steps and the stages behind them."""
    step_axis.check_one_run(rows)
    last = [] if stages is None else stages.table["end"].tolist()
    step_axis.set_step_axis(ax, [*rows["step"], *last])
    if small:
        ax.set_xlabel(headed("step"))
    step_axis.shade_stages(ax, stages, numbers_only=small)
    return ax


def finish(ax: Axes, bottom: float | None = None) -> Axes:
    """Set where the y axis begins, and label the lines at their ends."""
    if bottom is not None:
        ax.set_ylim(bottom, None)
    step_axis.label_ends(ax)
    return ax
