"""How much later what happens in one run comes in another: over seeds of an intervention, and aligned by its events."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import scipy

from stagewise.event import Event
from stagewise.findings._frames import Columns, InWords, typed
from stagewise.findings.replicates import replicates_of
from stagewise.findings.stages import Stages
from stagewise.statistics import LEVEL
from stagewise.table import Quantities

EVENTS: Columns = {
    **{"event": "int64", "kind": "str"},
    **dict.fromkeys(("step", "lo", "hi", "other", "other_lo", "other_hi"), "float64"),
    **dict.fromkeys(("later", "later_lo", "later_hi"), "float64"),
}

Finding = dict[Any, Any]


def find_delays(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean delay of each transition over seeds, optimiser steps, with its 95 % interval (Student's t).

    Args:
        rows: as `intervene` returns them, of several seeds, with two columns more: `seed`, and what each run went
            `without`. Several interventions of one seed and kind are averaged first.

    Returns a row a transition and kind: `transition`, `without`, how many `seeds`, in how many of them it `never` came
    by the last step, and the `mean`, `lo` and `hi` of the others; the ends are missing where it came in one alone.
    """
    lines = []
    for (transition, without), of in rows.groupby(["transition", "without"], sort=False):
        by_seed = of.groupby("seed")["value"].mean()
        came = by_seed[np.isfinite(by_seed)]
        half = scipy.stats.t.ppf((1 + LEVEL) / 2, len(came) - 1) * came.sem() if len(came) > 1 else np.nan
        known = {"transition": transition, "without": without, "seeds": len(by_seed), "never": len(by_seed) - len(came)}
        lines.append({**known, "mean": came.mean(), "lo": came.mean() - half, "hi": came.mean() + half})
    return pd.DataFrame(lines)


@dataclasses.dataclass(frozen=True, eq=False)
class Comparison(InWords):
    """The stages of two runs, aligned. Steps are optimiser updates.

    `events` has a row an event: its place in `catalogue`, its `kind`, its `step` in the first run with its 95 %
    interval and in the second one (`other`), how many steps `later` it came there, and between which numbers if both
    intervals hold. A head goes by its role, with its number in the first run. `unknown` has the runs with too few
    checkpoints, as `Stages.unknown`: what they do not have may have come all the same.
    """

    runs: tuple[str, str]
    events: pd.DataFrame
    roles: pd.DataFrame
    unknown: Mapping[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    catalogue: tuple[Event, ...] = ()
    quantities: Quantities = dataclasses.field(default_factory=dict)
    axis: str = "steps"


def compare_stages(first: Stages, second: Stages, roles: pd.DataFrame) -> Comparison:
    """Align boundaries and onsets of two runs, heads by roles; of several onsets those nearest in log(1 + step)."""
    aligned = replicates_of([first, second], roles)
    kind = [aligned.catalogue[event].unnumbered for event in aligned.findings["event"]]
    place = {event: i for i, event in enumerate(dict.fromkeys(kind))}
    groups = aligned.findings.groupby([place[event] for event in kind], sort=False)
    events = typed((_event_of(pair) for _, rows in groups for pair in _pairs(rows, first.run)), EVENTS)
    order = events["step"].fillna(events["other"]).argsort(kind="stable")
    unknown = {one.run: one.unknown for one in (first, second) if one.unknown}
    runs, ordered = (first.run, second.run), events.iloc[order].reset_index(drop=True)
    return Comparison(runs, ordered, roles, unknown, aligned.catalogue, aligned.quantities, first.axis)


def _pairs(rows: pd.DataFrame, first: str) -> Iterator[tuple[Finding | None, Finding | None]]:
    """Yield the findings of one kind that correspond, and those of one run alone."""
    of_first, of_second = (part.to_dict("records") for part in (rows[rows["run"] == first], rows[rows["run"] != first]))
    times = [np.log1p([row["step"] for row in part]) for part in (of_first, of_second)]
    places = scipy.optimize.linear_sum_assignment(np.abs(np.subtract.outer(*times)))
    pairs = dict(zip(*(place.tolist() for place in places), strict=True))
    for i, row in enumerate(of_first):
        yield row, of_second[pairs[i]] if i in pairs else None
    for j, row in enumerate(of_second):
        if j not in pairs.values():
            yield None, row


def _event_of(pair: tuple[Finding | None, Finding | None]) -> dict[str, Any]:
    first, second = pair
    named = first or second or {}
    record = {name: named[name] for name in ("event", "kind")}
    if first is not None:
        record |= {name: first[name] for name in ("step", "lo", "hi")}
    if second is not None:
        record |= {"other": second["step"], "other_lo": second["lo"], "other_hi": second["hi"]}
    if first is not None and second is not None:
        record |= {"later": second["step"] - first["step"]}
        record |= {"later_lo": second["lo"] - first["hi"], "later_hi": second["hi"] - first["lo"]}
    return record
