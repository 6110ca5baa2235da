"""Figures of a model of text: KL to the n-gram models beside the losses, and every head's mass by its kind."""

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stagewise.criteria import DEFAULT
from stagewise.findings.crossings import Crossing
from stagewise.plot import axes as step_axis
from stagewise.plot.axes import ordered_colours
from stagewise.plot.curves import BLACK, kl_curves, quantity_of
from stagewise.table import Head, head_label, select
from stagewise.words import headed

HEAD_KINDS = {"previous-token": "previous token", "induction": "induction"}
"""Kind of head of a model of text -> its relation."""

N_GRAMS = ("unigram", "bigram", "trigram")
"""References that are n-gram models of the training text, in the order of their context."""


def n_gram_curves(table: pd.DataFrame, crossings: Sequence[Crossing]) -> Figure:
    """Draw KL to the n-gram models with the crossings, and the loss beside theirs where it was measured."""
    losses = bool((table["probe"] == "LossAgainstReferences").any())
    figure, axes = step_axis.panels(1 + losses, 3.4 + 2.8 * losses)
    colours = ordered_colours(N_GRAMS)
    for ax in axes:
        for crossing in crossings:
            if crossing.seen:
                ax.axvspan(crossing.lo, crossing.hi, color=colours[crossing.after], alpha=0.15, linewidth=0)
    kl_curves(table, N_GRAMS, ax=axes[0])
    if losses:
        axes[0].set_xlabel("")
        _loss_curves(axes[1], table, colours)
    return figure


def _loss_curves(ax: Axes, table: pd.DataFrame, colours: Mapping[object, str]) -> None:
    loss = select(table, "Loss", "cross_entropy")
    step_axis.set_step_axis(ax, loss["step"])
    for name in N_GRAMS:
        rows = select(table, "LossAgainstReferences", "cross_entropy", reference=name)
        ax.plot(rows["step"], rows["value"], color=colours[name], linewidth=1.0, label=name)
    step_axis.curve(ax, loss, "model", BLACK, "o")
    quantity = quantity_of(table, "Loss", "cross_entropy")
    ax.set_ylabel(f"{quantity.label} on held-out text, {quantity.unit}")
    step_axis.label_ends(ax)


def head_curves(table: pd.DataFrame, batch: str, named: float = DEFAULT.named) -> dict[str, Axes]:
    """Draw every head's mass over training, a panel a kind; where no head comes near `named`, the best one is labelled.

    Args:
        table: with `AttentionTo` rows.
        batch: what they were measured on, for the titles.
        named: the mass from which a head has a kind's name.
    """
    step_axis.check_one_run(table)
    ylabel = quantity_of(table, "AttentionTo", "mass").axis
    panels = {}
    for kind, relation in HEAD_KINDS.items():
        ax = _curves_of_all_heads(select(table, "AttentionTo", "along", relation=relation), named)
        ax.set(xlabel=headed("step"), ylabel=ylabel)
        ax.set_title(f"{kind}: {batch}", loc="left", fontsize=10)
        step_axis.label_ends(ax)
        panels[f"{kind} {batch}"] = ax
    return panels


def _curves_of_all_heads(rows: pd.DataFrame, threshold: float) -> Axes:
    """Draw a line a head; those that come to half of the threshold, or none does, the largest, are labelled."""
    ax = step_axis.new_axes(None, 3.8, 2.7)
    step_axis.set_step_axis(ax, rows["step"])
    ax.axhline(threshold, color="#888888", linewidth=0.8, linestyle=":", label="_threshold")
    largest, colours = rows.groupby(["layer", "head"])["value"].max(), step_axis.head_colours(rows)
    for i, (head, line) in enumerate(_by_head(rows).items()):
        is_labelled = largest[head] >= min(threshold / 2, largest.max())
        label = head_label(*head) if is_labelled else f"_{head_label(*head)}"
        step_axis.curve(ax, line, label, colours[head], step_axis.marker(i))
    ax.set_ylim(0, 1.1 * max(threshold, rows["value"].max()))
    return ax


def _by_head(rows: pd.DataFrame) -> Mapping[Head, pd.DataFrame]:
    """Return the rows of each head, in order."""
    return {(int(str(layer)), int(str(head))): line for (layer, head), line in rows.groupby(["layer", "head"])}
