"""Draw the figures of incremental learning from the run folders of a sweep."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.patches import Patch

from stagewise import plot
from stagewise.checkpoints.run_folder import table_file
from stagewise.papers.incremental._compare import compare
from stagewise.papers.incremental._numbers import has_trained, nearest
from stagewise.papers.incremental._summary import title_of
from stagewise.papers.incremental.published import LOOKED_AT
from stagewise.papers.incremental.recipes import FIGURES
from stagewise.plot.axes import HEADS
from stagewise.plot.curves import family, finish, quantity_of
from stagewise.plot.heads import name_head
from stagewise.reporting import Measured, read_measured
from stagewise.saved_findings import load_stages
from stagewise.table import Head, families, heads_in, select

_MAPS = 4
"""Maps of a run that fit beside each other."""


def measured_runs(folder: Path, summary: pd.DataFrame) -> dict[str, Measured]:
    """Return the measurements of a figure's runs, by name, with their maps.

    Args:
        folder: holds the run folders.
        summary: from `run_figure`: a row a run.

    Raises:
        FileNotFoundError: a run was not measured yet.
    """
    return {row["run"]: _with_maps(folder / row["folder"]) for row in summary.to_dict("records")}


def draw(figure: str, measured: Mapping[str, Measured], summary: pd.DataFrame) -> Figure:
    """Draw a figure from the tables of its runs.

    Args:
        figure: its number in the paper, one of FIGURES.
        measured: from `measured_runs`.
        summary: from `run_figure`: a row a run.
    """
    kind = FIGURES[figure].kind
    if kind == "compare":
        best = figure == "5" and all(has_trained(run.table) for run in measured.values())
        return compare({name: run.table for name, run in measured.items()}, summary, best=best)
    if kind == "maps":
        return _maps(measured, LOOKED_AT.get(figure, ()))
    return {"stages": stages, "curves": _curves, "heads": _heads}[kind](measured)


def _with_maps(folder: Path) -> Measured:
    """Return the measurement in a run folder, with all rows of its table and their maps."""
    return read_measured(folder)._replace(stages=load_stages(folder), table=table_file(folder).read(arrays=["map"]))


def stages(runs: Mapping[str, Measured]) -> Figure:
    """Draw, for each run, KL to the truncated references with its stages, and its attention at each stage's end."""
    figure, parts = _parts(map(title_of, runs), 14, 4)
    for part, run in zip(parts, runs.values(), strict=True):
        ends = _ends(run)
        curves, *rest = part.subplots(1, 1 + len(ends), width_ratios=[2, *[1] * len(ends)])
        plot.kl_curves(run.table, stages=run.stages, ax=curves)
        for step, ax in zip(ends, rest, strict=True):
            plot.attention_map(run.table, step, 0, run.relations, run.first_query, ax, _colours(run.table))
    _name_heads(figure, runs)
    return figure


def _curves(runs: Mapping[str, Measured]) -> Figure:
    """Draw, for each run, KL to the truncated references, and to the trained restricted models or its excess loss."""
    figure, parts = _parts(map(title_of, runs), 12.5, 3.6)
    for part, run in zip(parts, runs.values(), strict=True):
        left, right = part.subplots(1, 2)
        plot.kl_curves(run.table, stages=run.stages, ax=left)
        trained = families(select(run.table, "KLToReference", "kl"))["trained"]
        if trained:
            plot.kl_curves(run.table, trained, run.stages, ax=right)
        else:
            plot.loss_curve(run.table, run.stages, ax=right)
    return figure


def _maps(runs: Mapping[str, Measured], looked_at: Sequence[int] = ()) -> Figure:
    """Draw each run's attention at the first checkpoint and at the figure's steps, or where its stages end.

    Each layer has a row.
    """
    rows = {(name, at): (run, at) for name, run in runs.items() for at in dict(heads_in(run.table))}
    several = len({layer for _, layer in rows}) > 1
    titles = [f"{title_of(name)}, layer {layer}" if several else title_of(name) for name, layer in rows]
    figure, parts = _parts(titles, 3.3 * _MAPS, 3.6)
    for part, (run, layer) in zip(parts, rows.values(), strict=True):
        steps = [int(run.table["step"].min()), *([nearest(run.table["step"], at) for at in looked_at] or _ends(run))]
        axes = part.subplots(1, max(_MAPS, len(steps)))
        for step, ax in zip(steps, axes, strict=False):
            plot.attention_map(run.table, step, layer, run.relations, run.first_query, ax, _colours(run.table))
        for ax in axes[len(steps) :]:
            ax.remove()
    _name_heads(figure, runs)
    return figure


def _heads(runs: Mapping[str, Measured]) -> Figure:
    """Draw each head's attention masses, and its values' alignment with every feature, negative offsets too."""
    number = max(len(heads_in(run.table)) for run in runs.values())
    figure, parts = _parts(map(title_of, runs), 4.4 * number, 5.6)
    for part, run in zip(parts, runs.values(), strict=True):
        axes = part.subplots(2, number, squeeze=False)
        for column, (layer, head) in enumerate(heads_in(run.table)):
            plot.head_masses(run.table, layer, head, run.stages, axes[0, column])
            _draw_projections(run, (layer, head), axes[1, column])
    return figure


def _draw_projections(run: Measured, head: Head, ax: Axes) -> None:
    """Draw one head's value map against each feature over training; the y axis is the same for all heads."""
    everything = select(run.table, "ValueAlignment", "projection")
    rows = select(run.table, "ValueAlignment", "projection", layer=head[0], head=head[1])
    family(ax, rows, "feature", everything["feature"].unique().tolist(), run.stages, small=True)
    ax.axhline(0, color="#888888", linewidth=0.7, label="_zero")
    name_head(ax, run.table, head)
    ax.set_ylabel(quantity_of(run.table, "ValueAlignment", "projection").axis)
    low, high = everything["value"].min(), everything["value"].max()
    margin = 0.05 * (high - low or 1)
    ax.set_ylim(min(low, 0) - margin, max(high, 0) + margin)
    finish(ax)


def _parts(names: Iterable[str], width: int | float, height: int | float) -> tuple[Figure, list[SubFigure]]:
    """Return a figure with a named part for each name, below each other; inches."""
    titles = list(names)
    figure = Figure(figsize=(width, height * len(titles)), layout="constrained")
    parts = list(figure.subfigures(len(titles), 1, squeeze=False).flat)
    for part, title in zip(parts, titles, strict=True):
        part.suptitle(title, x=0.01, ha="left", fontsize=10)
    return figure, parts


def _colours(table: pd.DataFrame) -> dict[Head, str]:
    """Give each head the colour of the group that it ends on, in every seed the same; a second one there another."""
    groups, ends_on = _ends_on(table)
    free = {layer: [*HEADS[len(groups) :]] for layer, _ in ends_on}
    taken: dict[tuple[int, str], Head] = {}
    for head, group in ends_on.items():
        taken.setdefault((head[0], group), head)
    return {
        head: HEADS[groups.index(group)] if taken[head[0], group] == head else free[head[0]].pop(0)
        for head, group in ends_on.items()
    }


def _ends_on(table: pd.DataFrame) -> tuple[list[str], dict[Head, str]]:
    """Return the groups, and for each head that which has most of its attention at the end."""
    masses = select(table, "AttentionTo", "mass", step=int(table["step"].max()))
    wide = masses.pivot(index=["layer", "head"], columns="relation", values="value").astype(float)
    return sorted(wide.columns), {
        (int(layer), int(head)): str(wide.loc[layer, head].idxmax()) for layer, head in wide.index
    }


def _name_heads(figure: Figure, runs: Mapping[str, Measured]) -> None:
    """Write above the maps which colour the head has that ends on each group, and others."""
    groups = _ends_on(next(iter(runs.values())).table)[0]
    used = {colour: None for run in runs.values() for colour in _colours(run.table).values()}
    names = dict(zip(HEADS, (f"head that ends on {group}" for group in groups), strict=False))
    keys = [Patch(color=colour, label=names.get(colour, "another head")) for colour in sorted(used, key=HEADS.index)]
    figure.legend(handles=keys, loc="outside upper right", ncols=len(keys), frameon=False, fontsize=9)


def _ends(run: Measured) -> list[int]:
    return [int(run.table["step"].max())] if run.stages is None else run.stages.table["end"].tolist()
