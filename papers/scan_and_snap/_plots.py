"""Figures of Scan and Snap's tables: table in, matplotlib figure out."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from stagewise.plot.axes import OKABE_ITO, curve, label_ends, marker, ordered_colours, set_step_axis
from stagewise.table import select

_SHOWN = (0, 2, 4, 6, 8, 10, 48)
"""The steps whose attention is drawn: the paper's, the last of them its "final" one."""


def attention_through_training(table: pd.DataFrame) -> Figure:
    """Draw, a column a run: the attention of class 0 over its tokens, the entropies, the change of attention.

    Source: Tian et al. (2023), arXiv:2305.16380, Figure 4; the lower two rows are this library's.
    """
    runs = table["run"].unique()
    figure = Figure(figsize=(6.2 * len(runs), 9.2), layout="constrained")
    grid = figure.subplots(3, len(runs), squeeze=False, height_ratios=(1.7, 1, 1))
    for run, (top, middle, bottom) in zip(runs, grid.T, strict=True):
        rows = table[table["run"] == run]
        _token_axis(top, select(rows, "AttentionByToken", "attention", row=0), _SHOWN)
        top.set_title(f"{run}, eta_Z = 1", loc="left", fontsize=10, fontweight="bold")
        entropies = select(rows, "TokenEntropy", "entropy")
        _steps(middle, entropies, "among", "entropy of attention, nats")
        change = select(rows, "AttentionFreezing", "change")
        _steps(bottom, change.assign(what="change"), "what", "TV change of attention\nper two steps")
        bottom.set_ylim(0, None)
    grid[0, -1].legend(title="step", frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1, 1))
    for panels in grid:
        _same_limits(panels)
    for ax in grid[1]:
        label_ends(ax)
    return figure


def most_attended(winners: pd.DataFrame, attention: pd.DataFrame) -> Figure:
    """Draw, a column a rate of Adam: one seed's attention of class 0, and how often each distinct token won.

    Source: Tian et al. (2023), arXiv:2305.16380, Figure 5; the lower row, over seeds, is this library's.
    """
    rates = sorted(winners["rate"].unique())
    figure = Figure(figsize=(5.2 * len(rates), 6), layout="constrained")
    grid = figure.subplots(2, len(rates), squeeze=False, height_ratios=(1.7, 1))
    for rate, (top, bottom) in zip(rates, grid.T, strict=True):
        rows = attention[attention["rate"] == rate].rename(columns={"attention": "value"})
        _token_axis(top, rows, (0, 4, 8, 12, 20, 100))
        top.set_title(f"Adam, rate {rate:g}", loc="left", fontsize=10, fontweight="bold")
        times = winners[winners["rate"] == rate]["index"].value_counts()
        bottom.bar(range(10), [times.get(index, 0) for index in range(10)], color=OKABE_ITO[0])
        bottom.set_xticks(range(10))
        bottom.set_xlabel("most attended distinct token, least to most frequent")
        bottom.set_ylabel("seeds")
        bottom.set_ylim(0, winners["seed"].nunique())
        bottom.spines[["top", "right"]].set_visible(False)
    grid[0, -1].legend(title="step", frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def entropy_by_rates(cells: pd.DataFrame) -> Figure:
    """Draw the entropy (mean and standard deviation over seeds) against eta_Y / eta_Z, a panel for each size.

    Source: Tian et al. (2023), arXiv:2305.16380, Figure 6.
    """
    sizes = sorted(cells["num_last"].unique())
    figure = Figure(figsize=(3.6 * len(sizes), 3.6), layout="constrained")
    panels = figure.subplots(1, len(sizes), squeeze=False, sharey=True)[0]
    colours = ordered_colours(sorted(cells["eta_z"].unique()))
    for size, ax in zip(sizes, panels, strict=True):
        rows = cells[cells["num_last"] == size]
        for i, (eta_z, group) in enumerate(rows.groupby("eta_z")):
            beside = group["ratio"] * 1.035 ** (i - 1.5)  # bars that would cover each other
            ax.errorbar(
                beside, group["entropy_mean"], group["entropy_std"], color=colours[eta_z], marker=marker(i), capsize=2,
                linewidth=1.3, markersize=5, label=f"{eta_z:g}",
            )  # fmt: skip
        ax.set_xscale("log")
        ratios = sorted(rows["ratio"].unique())
        ax.set_xticks(ratios, [str(ratio) for ratio in ratios])
        ax.set_xticks([], minor=True)
        ax.set_title(f"K = {rows['num_next'].iloc[0]} classes", loc="left", fontsize=10)
        ax.set_xlabel("eta_Y / eta_Z")
        ax.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("entropy of distinct tokens, nats")
    panels[-1].legend(title="eta_Z", frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def recall_by_threshold(cells: pd.DataFrame) -> Figure:
    """Draw the recall of distinct tokens (mean and deviation over seeds) over the threshold, a line a ratio.

    A row of panels a size, a column a rate of Z.

    Source: Tian et al. (2023), arXiv:2305.16380, Figures 11 and 12.
    """
    sizes, rates = sorted(cells["num_next"].unique()), sorted(cells["eta_z"].unique())
    figure = Figure(figsize=(3.1 * len(rates) + 0.8, 2.7 * len(sizes)), layout="constrained")
    grid = figure.subplots(len(sizes), len(rates), squeeze=False, sharey=True, sharex="row")
    colours = ordered_colours(sorted(cells["ratio"].unique()))
    for size, line in zip(sizes, grid, strict=True):
        for rate, ax in zip(rates, line, strict=True):
            cell = cells[(cells["num_next"] == size) & (cells["eta_z"] == rate)]
            for i, (ratio, rows) in enumerate(cell.groupby("ratio")):
                ax.errorbar(
                    rows["threshold"], rows["recall_mean"], rows["recall_std"], color=colours[ratio], marker=marker(i),
                    markersize=3, linewidth=1.2, capsize=1.5, label=f"{ratio}",
                )  # fmt: skip
            ax.xaxis.set_major_locator(MaxNLocator(3))
            ax.set_title(f"K = {size}, eta_Z = {rate:g}", loc="left", fontsize=9)
            ax.spines[["top", "right"]].set_visible(False)
        line[0].set_ylabel("recall of distinct tokens")
    for ax in grid[-1]:
        ax.set_xlabel("threshold of attention")
    grid[0, -1].legend(title="eta_Y / eta_Z", frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def _token_axis(ax: Axes, rows: pd.DataFrame, steps: tuple[int, ...]) -> None:
    """Draw the attention to the twenty tokens of class 0 at these steps, common tokens shaded."""
    shown_steps = [step for step in steps if (rows["step"] == step).any()]
    colours = ordered_colours(shown_steps)
    for i, step in enumerate(shown_steps):
        line = rows[(rows["step"] == step) & (rows["token"] < 20)].sort_values("token")
        ax.plot(
            line["token"].astype(int), line["value"].astype(float), color=colours[step], marker=marker(i),
            markersize=4, linewidth=1.3, label=str(step),
        )  # fmt: skip
    ax.axvspan(-0.5, 9.5, color="#eceef4", zorder=0, linewidth=0)
    ax.text(4.5, 0.98, "common", transform=ax.get_xaxis_transform(), ha="center", va="top", color="#444444")
    ax.text(14.5, 0.98, "distinct", transform=ax.get_xaxis_transform(), ha="center", va="top", color="#444444")
    ax.set_xlim(-0.5, 19.5)
    ax.set_ylim(0, 1.1 * rows.loc[rows["step"].isin(shown_steps), "value"].max())
    ax.set_xticks(range(0, 20, 2))
    ax.set_xlabel("token of class 0, distinct ones from rare to frequent")
    ax.set_ylabel("attention")
    ax.spines[["top", "right"]].set_visible(False)


def _steps(ax: Axes, rows: pd.DataFrame, axis: str, name: str) -> None:
    set_step_axis(ax, rows["step"])
    for i, (label, colour) in enumerate(ordered_colours(rows[axis].unique().tolist()).items()):
        curve(ax, rows[rows[axis] == label].drop(columns=["lo", "hi"], errors="ignore"), str(label), colour, marker(i))
    ax.set_ylabel(name)


def _same_limits(panels: np.ndarray) -> None:
    limits = [ax.get_ylim() for ax in panels]
    for ax in panels:
        ax.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
