"""A family of models on one page: when each size came to what, in tokens and in loss, over its seeds; heads by role."""

import dataclasses
import html
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from stagewise.checkpoints.run_folder import table_file, write, write_json
from stagewise.findings import Stages, head_labels
from stagewise.findings.replicates import Replicates, replicates_of
from stagewise.plot import seeds as plot
from stagewise.reporting._figure import Plot, figure_html
from stagewise.reporting._html import AbstractShown, wording
from stagewise.reporting._measured_runs import MeasuredRuns, read_runs, stages_part, write_runs
from stagewise.reporting._prose import NONE, html_table, number
from stagewise.reporting.comparison import UNLIKE
from stagewise.reporting.page import Part
from stagewise.table import Role, rows_named, with_role
from stagewise.words import at, capital, count, counted_in, interval
from stagewise.words.seeds import between
from stagewise.words.seeds import names as event_names

EVENTS, DATA = "atlas.parquet", "atlas.json"
"""The files beside the page."""

LISTED = 14
"""Events that are shown: those of most sizes, then of most seeds; the files have all."""

SPREAD = ("size", "runs", "transitions in each", "events in half of the runs or more", "sd between seeds, log time")


@dataclasses.dataclass(frozen=True, eq=False)
class Atlas(AbstractShown):
    """Common findings of the sizes of a family, and differences.

    Args:
        events: a row a run and event, as in `atlas.parquet`.
        sizes: a row a size and event, over its seeds.
        heads: a row a size and role.
        axis: what times are counted in, "steps" or "tokens".
        report: the HTML file; `atlas.parquet`, and `atlas.json` with all three frames, lie beside it.
    """

    events: pd.DataFrame
    sizes: pd.DataFrame
    heads: pd.DataFrame
    axis: str
    report: Path

    def __str__(self) -> str:
        with counted_in(self.axis):
            return "\n".join([*_sentences(self.sizes), f"report: {self.report}"])


def atlas(
    families: Mapping[str, Sequence[str | Path]],
    out: str | Path,
    axis: str = "tokens",
    tokens_per_step: int | None = None,
) -> Atlas:
    """Write one page on models of several sizes, and return what it shows.

    Args:
        families: size -> the folders of its measured runs, which differ in their seeds.
        out: the folder of the page, its figures, `atlas.parquet` and `atlas.json`.
        axis: "steps" where it is not known how many tokens the models had seen.
        tokens_per_step: of the runs that do not say it.

    Raises:
        FileNotFoundError: a folder holds no table.
        ValueError: one size alone, a run in which no stages can be looked for, or unknown tokens.
    """
    if len(families) < 2:
        raise ValueError(f"an atlas is of two sizes or more, got {', '.join(families) or 'none'}: `report` is of one")
    folders = [Path(folder) for each in families.values() for folder in each]
    runs = read_runs(folders, axis, tokens_per_step)
    sizes = dict(zip(runs.names, (size for size, each in families.items() for _ in each), strict=True))
    unlike = len({table_file(folder).provenance.get("batch") for folder in folders}) > 1
    with counted_in(axis):
        return _written(runs, sizes, Path(out), axis, UNLIKE if unlike else "")


def _written(runs: MeasuredRuns, sizes: Mapping[str, str], out: Path, axis: str, note: str) -> Atlas:
    first = {one.run: milestones(one) for one in runs.stages}
    losses = {run: _loss_of(table) for run, table in zip(runs.names, runs.tables, strict=True)}
    over = {size: replicates_of([first[run] for run in each]) for size, each in _by_size(sizes).items()}
    events = pd.concat([_of_runs(size, found, losses) for size, found in over.items()], ignore_index=True)
    of_sizes = pd.concat([_of_size(size, found, events) for size, found in over.items()], ignore_index=True)
    result = Atlas(events, of_sizes, _heads(runs, sizes), axis, out)
    write(out / EVENTS, lambda partial: events.to_parquet(partial, index=False))
    told = [_run(one, sizes[one.run], losses[one.run]) for one in runs.stages]
    frames = {"events": events, "over_seeds": of_sizes, "heads": result.heads}
    data = {"format": 1, "axis": axis, "sizes": [*over], "runs": told}
    write_json(out / DATA, {**data, **{name: _plain(frame) for name, frame in frames.items()}})
    shared = count(len(_shown(of_sizes)), "event")
    page = write_runs(
        out,
        runs,
        _parts(runs, sizes, result),
        of="run",
        name="Atlas",
        headline=f"{count(len(over), 'size')}, {count(len(sizes), 'run')}, {shared} in common",
        finding=" ".join(f"{sentence}." for sentence in _sentences(of_sizes)[:2]),
        words=html.escape(f"The sizes: {', '.join(over)}. The runs: {', '.join(sizes)}. {note}".strip()),
    )
    return dataclasses.replace(result, report=page)


def _run(stages: Stages, size: str, loss: pd.DataFrame) -> dict[str, Any]:
    """Return of a run its transitions, and its loss at the last checkpoint."""
    transitions = stages.table.iloc[1:][["start", "start_lo", "start_hi"]].set_axis(["time", "lo", "hi"], axis=1)
    last = float(loss["value"].iloc[-1]) if len(loss) else None
    return {"run": stages.run, "size": size, "transitions": _plain(transitions), "loss": last}


def _by_size(sizes: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the runs of each size."""
    return {size: [run for run in sizes if sizes[run] == size] for size in dict.fromkeys(sizes.values())}


def _loss_of(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a run's loss in the order of time; none where it was not measured."""
    return rows_named(table, [".".join(pair) for pair in with_role(table, Role.LOSS)[:1]]).sort_values("step")


def _of_runs(size: str, found: Replicates, losses: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return a row a run and event of one size, with the loss at its time."""
    told, rows = event_names(found, lambda _: "the first head"), []
    for row in found.findings.to_dict("records"):
        event, loss = found.catalogue[row["event"]], losses[row["run"]]
        labels = [f"{axis} {label}" for axis, label in event.labels if axis not in ("layer", "head")]
        times = np.log1p(loss["step"].to_numpy(float))
        there = float(np.interp(np.log1p(row["step"]), times, loss["value"])) if len(loss) else np.nan
        what = {"size": size, "run": row["run"], "event": told[row["event"]], "kind": row["kind"]}
        what |= {"probe": event.probe, "quantity": event.quantity, "up": event.up}
        what["labels"] = ", ".join(labels) or event.reference
        rows.append({**what, "time": row["step"], "lo": row["lo"], "hi": row["hi"], "loss": there})
    columns = ["size", "run", "event", "kind", "probe", "quantity", "up", "labels", "time", "lo", "hi", "loss"]
    return pd.DataFrame(rows, columns=columns)


def _of_size(size: str, found: Replicates, events: pd.DataFrame) -> pd.DataFrame:
    """Return a row an event of one size, over its seeds."""
    told = event_names(found, lambda _: "the first head")
    frame = found.events.rename(columns={"step": "time"}).drop(columns=["share", "share_lo", "share_hi", "recurs"])
    frame = frame.assign(size=size, event=[told[event] for event in frame["event"]], runs=len(found.runs))
    loss = events[events["size"] == size].groupby("event")["loss"].mean()
    return frame.assign(loss=frame["event"].map(loss))


def _heads(runs: MeasuredRuns, sizes: Mapping[str, str]) -> pd.DataFrame:
    """Return how many heads of each size have each role at the last checkpoint, in the mean over its runs."""
    rows = []
    for run, table in zip(runs.names, runs.tables, strict=True):
        labels = head_labels(table)
        last = labels.loc[labels["step"] == labels["step"].max(), "label"]
        runs_of_size = len(_by_size(sizes)[sizes[run]])
        rows += [(sizes[run], role, n / runs_of_size, len(last)) for role, n in last.value_counts().items()]
    frame = pd.DataFrame(rows, columns=["size", "role", "heads", "of"])
    return frame.groupby(["size", "role"], sort=False, as_index=False).agg({"heads": "sum", "of": "max"})


def _plain(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a frame for JSON: what is missing or infinite is null."""
    plain = frame.astype(object).where(frame.notna() & ~frame.isin([np.inf, -np.inf]), None)
    return [{str(name): value for name, value in row.items()} for row in plain.to_dict("records")]


def _shown(of_sizes: pd.DataFrame, least: int = 2) -> list[str]:
    """Return the events of so many sizes or more to show, the earliest first."""
    by_event = of_sizes.groupby("event").agg(sizes=("size", "nunique"), seeds=("seeds", "sum"), time=("time", "mean"))
    most = by_event[by_event["sizes"] >= least].sort_values(["sizes", "seeds"], ascending=False, kind="stable")[:LISTED]
    return [str(name) for name in most.sort_values("time").index]


def _sentences(of_sizes: pd.DataFrame) -> list[str]:
    """Say of each event that sizes have in common when each size came to it, and at which loss."""
    lines = []
    for name in _shown(of_sizes):
        rows = of_sizes[of_sizes["event"] == name].to_dict("records")
        times = "; ".join(f"{row['size']} at {at(row['time'])} (loss {number(row['loss'])})" for row in rows)
        lines.append(f"{capital(name)}: {times}")
    return lines or ["No event is common to two sizes"]


def _parts(runs: MeasuredRuns, sizes: Mapping[str, str], result: Atlas) -> Iterator[Part]:
    shown, columns, whole = _shown(result.sizes) or _shown(result.sizes, 1), [*_by_size(sizes)], runs.whole
    if shown:
        table = html_table(["what", *columns], _cells(result.sizes, "event", shown, columns, _when))
        yield Part("when", "What came when", table + wording("atlas", "when"))
    common = result.events[result.events["event"].isin(shown)]
    if len(common):
        common = common.sort_values("event", key=lambda names: names.map(shown.index), kind="stable")
        axes = [result.axis, *(["loss"] if common["loss"].notna().any() else [])]
        last = int(whole["step"].max())
        panels = {axis: plot.milestones(common, "loss" if axis == "loss" else "time", last) for axis in axes}
        yield Part(
            "compared",
            f"In {' and in '.join(axes)}",
            figure_html(Plot("atlas", panels, common, wording("atlas", "marks"))),
        )
    if with_role(whole, Role.LOSS):
        loss = Plot("loss", {"": plot.losses(whole, sizes)}, _loss_of(whole), wording("atlas", "loss"))
        yield Part("loss", "The loss", figure_html(loss))
    if len(result.heads):
        roles = _cells(result.heads, "role", list(dict.fromkeys(result.heads["role"])), columns, _share)
        yield Part("heads", "Heads by role", html_table(["role", *columns], roles) + wording("atlas", "heads"))
    yield Part("spread", "The seeds' spread", html_table(SPREAD, _spread(runs, sizes, result.sizes)))
    yield stages_part("run", runs.stages)


def _cells(
    frame: pd.DataFrame, name: str, rows: Sequence[str], sizes: Sequence[str], write: Any
) -> Iterator[list[str]]:
    """Yield a row of cells for each of some names, a cell a size."""
    cells = {(row[name], row["size"]): write(row) for row in frame.to_dict("records")}
    yield from ([each, *(cells.get((each, size), NONE) for size in sizes)] for each in rows)


def _when(row: Mapping[Any, Any]) -> str:
    time = interval(row["time"], row["lo"], row["hi"]) if row["told"] else between({**row, "step": row["time"]})
    return f"{time}, {row['seeds']} of {row['runs']}"


def _share(row: Mapping[Any, Any]) -> str:
    return f"{number(row['heads'])} of {row['of']} ({row['heads'] / row['of']:.0%})"


def _spread(runs: MeasuredRuns, sizes: Mapping[str, str], of_sizes: pd.DataFrame) -> Iterator[list[object]]:
    """Yield the cells of `SPREAD` of each size: the deviation is the median over events."""
    stages = {one.run: one for one in runs.stages}
    for size, each in _by_size(sizes).items():
        rows = of_sizes[(of_sizes["size"] == size) & (2 * of_sizes["seeds"] >= of_sizes["runs"])]
        transitions = ", ".join(str(len(stages[run].table) - 1) for run in each)
        yield [size, len(each), transitions, len(rows), number(rows.loc[rows["seeds"] > 1, "between"].median())]


def milestones(stages: Stages) -> Stages:
    """Return stages in which one onset stands for heads that agree in all else: so other sizes are aligned."""
    onsets = stages.onsets
    if onsets.empty:
        return stages
    onsets = onsets[onsets["onset"]].sort_values("t50", kind="stable")
    ups = onsets["after"] >= onsets["before"]
    of_heads = onsets["head"].notna()
    axes = [name for name in onsets.columns[: onsets.columns.get_loc("verdict")] if name not in ("layer", "head")]
    first = onsets.assign(up=ups)[of_heads].drop_duplicates([*axes, "up"]).drop(columns="up")
    return dataclasses.replace(
        stages, onsets=pd.concat([onsets[~of_heads], first.assign(layer=0, head=0).astype(onsets.dtypes)])
    )
