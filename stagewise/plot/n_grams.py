"""A model of text beside n-gram models: KL to each, where the next one takes over, and the loss beside theirs."""

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stagewise.findings._crossings import Crossing
from stagewise.plot._colours import ordered_colours
from stagewise.plot._curves import BLACK, kl_curves
from stagewise.plot._quantities import quantity_of
from stagewise.plot._step_axis import curve, label_ends, panels, set_step_axis
from stagewise.table import select

N_GRAMS = ("unigram", "bigram", "trigram")
"""References that are n-gram models of the training text, in the order of their context."""


def n_gram_curves(table: pd.DataFrame, crossings: Sequence[Crossing]) -> Figure:
    """Draw KL to the n-gram models with the crossings, and the loss beside theirs where it was measured."""
    losses = bool((table["probe"] == "LossAgainstReferences").any())
    figure, axes = panels(1 + losses, 3.4 + 2.8 * losses)
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
    set_step_axis(ax, loss["step"])
    for name in N_GRAMS:
        rows = select(table, "LossAgainstReferences", "cross_entropy", reference=name)
        ax.plot(rows["step"], rows["value"], color=colours[name], linewidth=1.0, label=name)
    curve(ax, loss, "model", BLACK, "o")
    quantity = quantity_of(table, "Loss", "cross_entropy")
    ax.set_ylabel(f"{quantity.label} on held-out text, {quantity.unit}")
    label_ends(ax)
