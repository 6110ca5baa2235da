"""Panels of the figures of incremental learning that the paper does not have."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure


def panels(n: int) -> tuple[Figure, list[Axes]]:
    """Return a figure with n panels side by side."""
    figure = Figure(figsize=(4.8 * n, 3.8), layout="constrained")
    return figure, list(figure.subplots(1, n, squeeze=False)[0])


def finish(ax: Axes, title: str, x: str, y: str) -> None:
    """Name the axes of a panel, show its title and legend, and take away the frame's upper half."""
    ax.set(xlabel=x, ylabel=y)
    ax.set_title(title, fontsize=9, loc="left")
    ax.legend(frameon=False, fontsize=8)
    ax.spines[["top", "right"]].set_visible(False)
