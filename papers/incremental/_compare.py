"""Draw runs that differ in one thing: loss with a band over seeds, stage boundaries with intervals, the best step."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stagewise.papers.incremental._summary import over_seeds, title_of
from stagewise.plot.axes import curve, label_ends, marker, new_axes, ordered_colours, set_step_axis
from stagewise.table import families, select

_SPREAD = 0.12
"""Distance between the seeds of a variant, in the distance between variants."""

_LEGEND = 0.9
"""Room for the legend below the last variant, in the same unit."""


def compare(tables: Mapping[str, pd.DataFrame], summary: pd.DataFrame, best: bool = False) -> Figure:
    """Draw the excess loss and the ends of the stages of every variant; with `best`, the best checkpoints too.

    Args:
        tables: of the runs, by name.
        summary: a row a run: `run`, `variant`, and the numbers of `run_numbers`.
        best: whether to mark the best checkpoints, and to draw below them KL to the trained restricted-context models:
            the closest of those at the best step shows how many stages were complete.
    """
    figure = Figure(figsize=(12, 8 if best else 4.2), layout="constrained")
    above, *below = figure.subfigures(1 + best, 1, squeeze=False)[:, 0]
    left, right = above.subplots(1, 2, width_ratios=[1.35, 1])
    excess_curves(tables, summary, best, left)
    boundaries(summary, int(max(table["step"].max() for table in tables.values())), right)
    for part in below:
        variants = summary.groupby("variant", sort=False)
        axes = part.subplots(1, len(variants), sharey=True, squeeze=False)[0]
        for (variant, rows), ax in zip(variants, axes, strict=True):
            restricted_curves(tables, rows, ax)
            ax.set_title(title_of(str(variant)), loc="left", fontsize=9)
            ax.set_ylabel("KL(trained restricted ‖ model), nats" if ax is axes[0] else "")
        axes[-1].legend(frameon=False, fontsize=8)
    return figure


def excess_curves(
    tables: Mapping[str, pd.DataFrame], summary: pd.DataFrame, best: bool = False, ax: Axes | None = None
) -> Axes:
    """Draw the excess loss (nats) of every variant over training: the mean of its seeds, and their range as a band.

    With `best`, a star marks the lowest excess of every run.
    """
    ax = new_axes(ax)
    colours = ordered_colours(list(summary["variant"].unique()))
    losses = {name: select(table, "Loss", "excess").set_index("step")["value"] for name, table in tables.items()}
    set_step_axis(ax, pd.concat(list(losses.values())).index.to_series())
    for variant, rows in summary.groupby("variant", sort=False):
        seeds = pd.concat([losses[name] for name in rows["run"]], axis=1)
        band = {"value": seeds.mean(axis=1), "lo": seeds.min(axis=1), "hi": seeds.max(axis=1)}
        curve(ax, pd.DataFrame(band).reset_index(), title_of(str(variant)), colours[variant])
        if best:
            ax.plot(rows["best_step"], rows["best_excess"], "*", color=colours[variant], markersize=11, label="_best")
    ax.set_ylabel("excess loss, nats")
    ax.set_ylim(0, 1.1 * max(float(loss.iloc[0]) for loss in losses.values()))
    ax.set_title(_title("loss", "mean and range", summary) + ("; ★ best step" if best else ""), loc="left", fontsize=9)
    label_ends(ax)
    return ax


def boundaries(summary: pd.DataFrame, last: int, ax: Axes | None = None) -> Axes:
    """Draw where the stages of every variant end: each run with its own interval, and the mean of several seeds above.

    A mean has its 95 % interval (Student's t). A stage that did not end is not there.

    Args:
        summary: a row a run, with `variant` and its `end_1`, `end_1_lo`, `end_1_hi`, ...
        last: the last step of the axis.
        ax: where to draw.
    """
    ax = new_axes(ax)
    set_step_axis(ax, [last])
    ends = [name for name in summary.columns if name.startswith("end_") and name.count("_") == 1]
    colours = ordered_colours(ends)
    averages = over_seeds(summary)
    names = [str(name) for name in summary["variant"].unique()]
    for i, variant in enumerate(names):
        runs = summary[summary["variant"] == variant]
        for end in ends:
            for j, row in enumerate(runs.dropna(subset=end).to_dict("records"), start=1):
                ax.plot([row[f"{end}_lo"], row[f"{end}_hi"]], [i + j * _SPREAD] * 2, color=colours[end], linewidth=0.8)
                ax.plot(row[end], i + j * _SPREAD, marker(ends.index(end)), color=colours[end], markersize=3)
            _mean(ax, averages[(averages["variant"] == variant) & (averages["quantity"] == end)], i, colours[end], last)
        if runs[ends].isna().all(axis=None):
            ax.text(0.02, i, "no stage ends", transform=ax.get_yaxis_transform(), va="center", fontsize=8)
    for i, end in enumerate(ends):
        ax.plot([], [], marker(i), color=colours[end], label=f"end of stage {end.removeprefix('end_')}")
    if (averages["n"] > 1).any():
        ax.plot([], [], "D", color="#888888", markersize=6, label="mean of the seeds")
    ax.set_yticks(range(len(names)), [title_of(name) for name in names])
    ax.set_ylim(len(names) + _LEGEND - 0.4, -0.5)
    ax.set_title(_title("ends of stages", "95 % intervals", summary), loc="left", fontsize=9)
    if ends:
        ax.legend(frameon=False, fontsize=8, loc="lower left")
    return ax


def _mean(ax: Axes, average: pd.DataFrame, height: int, colour: str, last: int) -> None:
    for row in average[average["n"] > 1].to_dict("records"):
        ax.plot(row["mean"], height, "D", color=colour, markersize=6)
        ax.plot(np.clip([row["lo"], row["hi"]], 0, last), [height] * 2, color=colour, linewidth=2.2)


def restricted_curves(tables: Mapping[str, pd.DataFrame], rows: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw a variant's KL to each trained restricted model (nats): the mean of its seeds, and their range as a band.

    A dotted line stands at the best step of every run.

    Args:
        tables: of the runs, by name.
        rows: of the summary, the variant's: `run` and `best_step`.
        ax: where to draw.

    Source: Yüksel et al. (2026), arXiv:2602.19143, Figure 5.
    """
    ax = new_axes(ax)
    kl = pd.concat([select(tables[run], "KLToReference", "kl") for run in rows["run"]])
    set_step_axis(ax, kl["step"])
    seeds = kl.groupby(["reference", "step"])["value"].agg(value="mean", lo="min", hi="max").reset_index()
    for i, (name, colour) in enumerate(ordered_colours(families(kl)["trained"]).items()):
        curve(ax, seeds[seeds["reference"] == name], str(name), colour, marker(i))
    for step in rows["best_step"]:
        ax.axvline(step, color="#888888", linewidth=1, linestyle=":", label="_best")
    ax.set_ylim(bottom=0)
    return ax


def _title(what: str, of_several: str, summary: pd.DataFrame) -> str:
    seeds = int(summary.groupby("variant").size().max())
    return f"{what}, {seeds} seeds: {of_several}" if seeds > 1 else f"{what}, one seed"
