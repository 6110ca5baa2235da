"""Figures of a measured table: table in, matplotlib axes out.

Every function takes the tidy table of one run, optionally its `stages` to shade and the `ax` to draw on, and
returns the axes; without `ax` it makes a figure that no global state knows of (`ax.figure.savefig(...)`).
"""

from collections.abc import Callable, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stagewise.detection.stages import Stages
from stagewise.plot.colours import head_colours, ink, marker, ordered_colours
from stagewise.plot.step_axis import curve, label_ends, new_axes, set_step_axis, shade_stages
from stagewise.table import Head, families, head_label, heads_in, select

Name = Callable[[object], str]


KL_FLOOR = 1e-3
"""Nats below which a log scale shows nothing that matters: a hundredth of the smallest effects reported."""

LOSSES = {
    "excess": ("excess loss", ", nats"),
    "cross_entropy": ("cross-entropy", ", nats"),
    "squared_error": ("squared error / 2", ""),
}
"""Quantities of the `Loss` probe, the first that a table has is drawn: label and unit."""


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
        stages: shaded where given.
        theory: rows with the same columns.
        ax: where to draw.

    Raises:
        ValueError: the table has no such rows.

    Source: Yüksel et al. (2026), arXiv:2602.19143, Figures 1 and 3 (left).
    """
    rows = select(table, "KLToReference", "kl")
    there = [str(name) for name in rows["reference"].unique()]
    names = list(references or families(rows)["nested"] or there)
    if unknown := sorted(set(names) - set(there)):
        raise ValueError(f"the table has no KL to {', '.join(unknown)}; it has {', '.join(there)}")
    rows = rows[rows["reference"].isin(names)]
    ax = _curves(new_axes(ax), rows, "reference", names, stages, lambda name: f"KL to {name}")
    if theory is not None:
        _theory(ax, select(theory, "KLToReference", "kl"), "reference", ordered_colours(names))
    ax.set_ylabel("KL(reference ‖ model), nats")
    return _finish(ax, bottom=0.0)


def loss_curve(
    table: pd.DataFrame,
    stages: Stages | None = None,
    theory: pd.DataFrame | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the excess loss over training, nats; the cross-entropy or squared error where there is no excess.

    Raises:
        ValueError: the table has no `Loss` rows.

    Source: Yüksel et al. (2026), arXiv:2602.19143, Figures 1 and 4.
    """
    there = select(table, "Loss")
    quantity = next(name for name in LOSSES if name in set(there["quantity"]))
    rows = there[there["quantity"] == quantity]
    ax = new_axes(ax, height=2.4)
    _prepare(ax, rows, stages)
    label, unit = LOSSES[quantity]
    curve(ax, rows, label, "#222222", "o")
    if theory is not None:
        curve(ax, select(theory, "Loss", quantity), "theory", "#222222", theory=True)
    ax.set_ylabel(f"{label}{unit}")
    return _finish(ax, bottom=0.0 if quantity in ("excess", "squared_error") and rows["value"].min() >= 0 else None)


def head_masses(
    table: pd.DataFrame,
    layer: int,
    head: int,
    stages: Stages | None = None,
    ax: Axes | None = None,
    theory: pd.DataFrame | None = None,
) -> Axes:
    """Draw one head's attention mass on each relation over training, theory dashed.

    Raises:
        ValueError: the table has no `AttentionTo` rows of this head.

    Source: Yüksel et al. (2026), arXiv:2602.19143, the span masses of Figure B.
    """
    relations = select(table, "AttentionTo", "mass")["relation"].unique().tolist()
    rows = select(table, "AttentionTo", "mass", layer=layer, head=head)
    ax = _curves(new_axes(ax, 3.8, 2.7), rows, "relation", relations, stages, str, small=True)
    if theory is not None:
        predicted = select(theory, "AttentionTo", "mass", layer=layer, head=head)
        _theory(ax, predicted, "relation", ordered_colours(relations))
    _name_head(ax, table, (layer, head))
    ax.set_ylabel("attention mass")
    ax.set_ylim(0, 1)
    return _finish(ax)


def all_head_masses(table: pd.DataFrame, stages: Stages | None = None, columns: int = 3) -> Figure:
    """Draw `head_masses` of every head in a grid.

    Raises:
        ValueError: the table has no `AttentionTo` rows.
    """
    heads = heads_in(select(table, "AttentionTo", "mass"))
    across = min(columns, len(heads))
    down = -(-len(heads) // across)
    figure = Figure(figsize=(3.8 * across, 2.7 * down), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False).flat
    for (layer, head), ax in zip(heads, grid, strict=False):
        head_masses(table, layer, head, stages, ax)
    for ax in list(grid)[len(heads) :]:
        ax.remove()
    return figure


def restricted_context(table: pd.DataFrame, stages: Stages | None = None, ax: Axes | None = None) -> Axes:
    """Draw KL(model || model cut to its last c positions) over training, nats (log scale), one line a context c.

    Raises:
        ValueError: the table has no `RestrictedContextKL` rows.

    Source: Yüksel et al. (2026), arXiv:2602.19143, Figure 3 (right), with the model itself cut.
    """
    rows = select(table, "RestrictedContextKL", "kl")
    contexts = sorted(rows["context"].unique())
    ax = _curves(new_axes(ax), rows, "context", contexts, stages, lambda context: f"c = {context}")
    ax.set_ylabel("KL(model ‖ cut to c positions), nats")
    ax.set_yscale("log")
    return _finish(ax, bottom=KL_FLOOR)


def specialisation(table: pd.DataFrame, stages: Stages | None = None, ax: Axes | None = None) -> Axes:
    """Draw the competition and the coverage index of the heads over training.

    Raises:
        ValueError: the table has no `HeadSpecialisation` rows.

    Source: the competitive and cooperative phases of Yüksel et al. (2026), arXiv:2602.19143, section 3.
    """
    rows = select(table, "HeadSpecialisation")
    rows = rows[rows["quantity"].isin(("competition", "coverage"))]
    ax = _curves(new_axes(ax, height=2.6), rows, "quantity", ["competition", "coverage"], stages, str)
    ax.set_ylabel("index")
    ax.set_ylim(0, 1)
    return _finish(ax)


def entropy(
    table: pd.DataFrame,
    heads: Sequence[Head] | None = None,
    stages: Stages | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the entropy of each head's attention over training, nats.

    Raises:
        ValueError: the table has no `AttentionEntropy` rows.

    Source: Zhai et al. (2023), arXiv:2303.06296.
    """
    rows = select(table, "AttentionEntropy", "entropy")
    ax = new_axes(ax, height=2.6)
    _prepare(ax, rows, stages)
    for i, (layer, head) in enumerate(heads or heads_in(rows)):
        own = rows[(rows["layer"] == layer) & (rows["head"] == head)]
        curve(ax, own, head_label(layer, head), head_colours(table)[layer, head], marker(i))
    ax.set_ylabel("entropy, nats")
    return _finish(ax, bottom=0.0)


def value_alignment(
    table: pd.DataFrame,
    layer: int,
    head: int,
    quantity: str = "cosine",
    stages: Stages | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw one head's value map against each feature over training: its `cosine` or its `projection`.

    The y axis is the same for all heads.

    Raises:
        ValueError: the table has no such `ValueAlignment` rows.

    Source: Yüksel et al. (2026), arXiv:2602.19143, Figure B.
    """
    everything = select(table, "ValueAlignment", quantity)
    rows = select(table, "ValueAlignment", quantity, layer=layer, head=head)
    features = everything["feature"].unique().tolist()
    ax = _curves(new_axes(ax, 3.8, 2.7), rows, "feature", features, stages, str, small=True)
    ax.axhline(0, color="#888888", linewidth=0.7, label="_zero")
    _name_head(ax, table, (layer, head))
    ax.set_ylabel(quantity)
    low, high = everything["value"].min(), everything["value"].max()
    margin = 0.05 * (high - low or 1)
    ax.set_ylim(min(low, 0) - margin, max(high, 0) + margin)
    return _finish(ax)


def training_loss(metrics: pd.DataFrame, stages: Stages | None = None, ax: Axes | None = None) -> Axes:
    """Draw the loss of every training batch, nats, from the frame of training metrics (`step`, `loss`)."""
    ax = new_axes(ax, height=2.4)
    _prepare(ax, metrics, stages)
    rows = metrics[["step", "loss"]].rename(columns={"loss": "value"})
    curve(ax, rows, "training batch", "#222222")
    ax.set_ylabel("training loss, nats")
    return _finish(ax)


def _curves(
    ax: Axes,
    rows: pd.DataFrame,
    axis: str,
    labels: Sequence[object],
    stages: Stages | None,
    name: Name,
    small: bool = False,
) -> Axes:
    """Draw a line for each label on an axis of the table, in ordered colours."""
    _prepare(ax, rows, stages, small)
    for i, (label, colour) in enumerate(ordered_colours(labels).items()):
        curve(ax, rows[rows[axis] == label], name(label), colour, marker(i))
    return ax


def _theory(ax: Axes, rows: pd.DataFrame, axis: str, colours: dict[object, str]) -> None:
    for label, colour in colours.items():
        own = rows[rows[axis] == label]
        if len(own):
            curve(ax, own, f"_theory {label}", colour, theory=True)


def _prepare(ax: Axes, rows: pd.DataFrame, stages: Stages | None, small: bool = False) -> None:
    if "run" in rows and rows["run"].nunique() > 1:
        raise ValueError(
            f"a figure shows one run, the table has {rows['run'].nunique()}: select one by its `run` column"
        )
    last = [] if stages is None else stages.table["end"].tolist()
    set_step_axis(ax, [*rows["step"], *last])
    if small:
        ax.set_xlabel("optimiser step")
    shade_stages(ax, stages, numbers_only=small)


def _name_head(ax: Axes, table: pd.DataFrame, head: Head) -> None:
    colour = ink(head_colours(table)[head])
    ax.set_title(head_label(*head), loc="left", color=colour, fontweight="bold", fontsize=10, pad=16)


def _finish(ax: Axes, bottom: float | None = None) -> Axes:
    if bottom is not None:
        ax.set_ylim(bottom, None)
    label_ends(ax)
    return ax
