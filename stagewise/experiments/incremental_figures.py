"""Draw the figures of incremental learning from the run folders of a sweep; Figure 10 from its equation."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stagewise import plot
from stagewise.folder import read_table
from stagewise.palette import ordered_colours
from stagewise.stages import find_stages
from stagewise.step_axis import curve, label_ends, new_axes, set_step_axis
from stagewise.table import select
from stagewise.theory.competitive import plateau_losses
from stagewise.theory.dynamics import predict
from stagewise.theory.tensor_factorisation import TensorFactorisation

COMPARED = ("4L", "4R", "5")
"""Figures that compare runs in one axes; the others show each run by itself."""


def draw(figure: str, folder: Path, runs: Sequence[str]) -> Figure:
    """Draw a figure from the tables of its runs.

    Args:
        figure: its number in the paper.
        folder: holds the run folders.
        runs: their names, "variant-seedN".

    Raises:
        FileNotFoundError: a run was not measured yet.
    """
    found = {name: read_table(folder / name) for name in runs}
    return compare(found, best=figure == "5") if figure in COMPARED else side_by_side(found)


def compare(found: dict[str, pd.DataFrame], best: bool = False) -> Figure:
    """Draw the excess loss of every run, one colour a variant; with `best`, mark and compare the best checkpoints.

    The right axes, of runs with trained restricted-context models, show KL to each at the best step: the smallest
    tells how many stages were complete.
    """
    figure = Figure(figsize=(12 if best else 7.6, 4), layout="constrained")
    left, *rest = figure.subplots(1, 1 + best, squeeze=False).flat
    excess_curves(found, best, left)
    for right in rest:
        kl_at_best(found, right)
    return figure


def excess_curves(found: dict[str, pd.DataFrame], best: bool = False, ax: Axes | None = None) -> Axes:
    """Draw the excess loss (nats) of every run over training, one colour a variant, a star at the lowest."""
    ax = new_axes(ax)
    variants = list(dict.fromkeys(_variant(name) for name in found))
    colours = ordered_colours(variants)
    losses = {name: select(table, "Loss", "excess") for name, table in found.items()}
    set_step_axis(ax, pd.concat(list(losses.values()))["step"])
    labelled: set[str] = set()
    for name, rows in losses.items():
        variant = _variant(name)
        curve(ax, rows, f"_{name}" if variant in labelled else variant, colours[variant])
        labelled.add(variant)
        if best:
            lowest = rows.iloc[int(rows["value"].to_numpy().argmin())]
            ax.plot(lowest["step"], lowest["value"], "*", color=colours[variant], markersize=11, label="_best")
    ax.set_ylabel("excess loss, nats")
    ax.set_ylim(0, 1.1 * max(float(rows["value"].iloc[0]) for rows in losses.values()))
    label_ends(ax)
    return ax


def kl_at_best(found: dict[str, pd.DataFrame], ax: Axes | None = None) -> Axes:
    """Draw KL to each restricted-context model at the best step (nats, log scale), one line a context."""
    ax = new_axes(ax)
    values = pd.DataFrame({name: _at_best(table) for name, table in found.items()})
    values = values.T.groupby(lambda name: _variant(str(name)), sort=False).mean()
    colours = ordered_colours(list(values.columns))
    for context in values.columns:
        ax.plot(range(len(values)), values[context], "o-", color=colours[context], label=str(context))
    ax.set_xticks(range(len(values)), [str(name) for name in values.index])
    ax.set_yscale("log")
    ax.set_ylabel("KL(restricted ‖ model) at the best step, nats")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    return ax


def _at_best(table: pd.DataFrame) -> pd.Series:
    excess = select(table, "Loss", "excess")
    step = int(excess["step"].to_numpy()[excess["value"].to_numpy().argmin()])
    kl = select(table, "KLToReference", "kl", step=step).set_index("reference")["value"]
    return kl[kl.index.str.startswith("trained ")]


def _variant(name: str) -> str:
    return name.rpartition("-seed")[0]


def side_by_side(found: dict[str, pd.DataFrame]) -> Figure:
    """Draw, for each run, KL to the truncated truths with its stages, and its attention at the end of each stage."""
    figure = Figure(figsize=(14, 4 * len(found)), layout="constrained")
    parts = figure.subfigures(len(found), 1, squeeze=False).flat
    for part, (name, table) in zip(parts, found.items(), strict=True):
        stages = find_stages(table)
        ends = stages.table["end"].tolist()
        axes = part.subplots(1, 1 + len(ends), width_ratios=[2, *[1] * len(ends)])
        plot.kl_curves(table, stages=stages, ax=axes[0])
        part.suptitle(name, x=0.01, ha="left", fontsize=10)
        for step, ax in zip(ends, axes[1:], strict=True):
            plot.attention_map(table, step, ax=ax)
    return figure


def ode(theory: TensorFactorisation | None = None, until: int = 500) -> Figure:
    """Draw Figure 10: the loss of the reduced dynamics over time with its plateaus, and each head's attention masses.

    Args:
        theory: the dynamics; None takes those of the figure.
        until: the time to solve to.

    Source: Yüksel et al. (2026), arXiv:2602.19143, Figure 10.
    """
    theory = theory or TensorFactorisation()
    table = predict(theory, range(until + 1))
    figure = Figure(figsize=(11, 6), layout="constrained")
    above, below = figure.subfigures(2, squeeze=False).flat
    loss = plot.loss_curve(table, ax=above.subplots())
    for level in plateau_losses(theory):
        loss.axhline(level, color="#bbbbbb", linewidth=0.7, label="_plateau", zorder=0)
    loss.set_xlabel("time of the gradient flow (log scale; linear near 0)")
    for head, ax in enumerate(below.subplots(1, theory.n_heads, squeeze=False).flat):
        plot.head_masses(table, 0, head, ax=ax)
        ax.set_xlabel("time of the flow")
    return figure
