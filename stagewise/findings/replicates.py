"""Seeds as replicates: the findings of several runs of one recipe, aligned, and their distribution over seeds."""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy

from stagewise.criteria import DEFAULT, StageCriteria
from stagewise.event import Event, EventKind, labels_of
from stagewise.findings._frames import Columns, InWords, plain, typed
from stagewise.findings._roles import ROLES, head_roles, with_roles
from stagewise.findings.stages import Stages, find_stages
from stagewise.statistics import FEWEST_SEEDS, LEVEL, QUANTILE, pooled
from stagewise.table import Quantities, plain_quantities

FINDINGS: Columns = {"run": "str", "event": "int64", "kind": "str", **dict.fromkeys(("step", "lo", "hi"), "float64")}

EVENTS: Columns = {
    **{"event": "int64", "kind": "str", "seeds": "int64", "recurs": "bool"},
    **dict.fromkeys(("share", "share_lo", "share_hi"), "float64"),
    **dict.fromkeys(("step", "lo", "hi", "new_lo", "new_hi", "between", "least", "most"), "float64"),
    "told": "bool",
}

ORDER: Columns = {
    **{"before": "int64", "after": "int64", "seeds": "int64"},
    **dict.fromkeys(("share", "share_lo", "share_hi", "ratio", "lo", "hi", "p_value"), "float64"),
}

RECURS = 0.5
"""Share of the seeds from which an event is one of the recipe, not of one seed or of its noise."""

FRAMES = "findings", "events", "order", "roles"

Times = dict[str, float]
"""The step of an event, and the ends of its interval."""


@dataclasses.dataclass(frozen=True, eq=False)
class Replicates(InWords):
    """The findings of several seeds. Steps are optimiser updates; all intervals are of 95 %.

    Args:
        runs: their names.
        findings: a row a run and event: the `event` by its place in `catalogue`, its `kind`, its `step` in that run
            with its interval (`lo`, `hi`). Events are aligned by their fields: boundaries by their reference, onsets by
            their score, its labels, direction and, where runs have different numbers of them, by their times; heads by
            their roles.
        events: a row an event: the number of `seeds` with it, whether it `recurs` in half of them or more, the `share`
            of all with Clopper and Pearson's interval; the geometric mean of 1 + `step` over seeds (less 1) with
            Student's t interval over seeds (`lo`, `hi`); the interval of one more seed (`new_lo`, `new_hi`); and the
            standard deviation `between` seeds in log(1 + step), without the part that each run's interval explains.
            `least` and `most` are the range over seeds; the t interval is `told` in its place with four seeds or more,
            if it ends within the run.
        order: a row for each two recurring events that follow each other in the mean and share two seeds or more: the
            `share` of these `seeds` in which `before` came before `after`, with its interval; the geometric mean
            `ratio` of their steps with its t interval over seeds; and the `p_value` of the paired t test against "at
            the same time".
        roles: the head of each run that has each role, as `head_roles` returns them.
        catalogue: the events; the frames have their places in it.
        quantities: declarations of the quantities in which the events were found.
        axis: the unit of times, "steps" or "tokens": that of the stages.
    """

    runs: tuple[str, ...]
    findings: pd.DataFrame
    events: pd.DataFrame
    order: pd.DataFrame
    roles: pd.DataFrame = dataclasses.field(default_factory=lambda: typed([], ROLES))
    catalogue: tuple[Event, ...] = ()
    quantities: Quantities = dataclasses.field(default_factory=dict)
    axis: str = "steps"

    @property
    def written(self) -> dict[str, Any]:
        """Its fields as plain data, for JSON."""
        frames = {name: plain(getattr(self, name)) for name in FRAMES}
        catalogue = [event.plain for event in self.catalogue]
        what = {"catalogue": catalogue, "quantities": plain_quantities(self.quantities)}
        return {"runs": list(self.runs), "axis": self.axis, **frames, **what}


def find_replicates(table: pd.DataFrame, criteria: StageCriteria = DEFAULT) -> Replicates:
    """Find the stages and onsets of every run of a table, and their distribution over runs.

    Args:
        table: of several runs that differ in their seeds alone, each with what `find_stages` needs.
        criteria: the thresholds.

    Raises:
        ValueError: what `find_stages` and `head_roles` refuse.
    """
    of_runs = [rows for _, rows in table.groupby("run", sort=False)]
    found = [find_stages(rows, criteria=criteria) for rows in of_runs]
    return replicates_of(found, head_roles(table))


def replicates_of(found: Sequence[Stages], roles: pd.DataFrame | None = None) -> Replicates:
    """Align the stages of several runs, found already, and return their distribution over runs.

    Args:
        found: the stages of each run; their names must differ.
        roles: from `head_roles` of the runs' tables together; None takes heads by their indices.

    Raises:
        ValueError: none, two of one name, or times that are counted in different things.
    """
    names = tuple(one.run for one in found)
    if not names or len(set(names)) < len(names):
        raise ValueError(f"replicates need runs of different names, got {', '.join(names) or 'none'}: rename their run")
    if len(axes := {one.axis for one in found}) > 1:
        raise ValueError("of some runs the times are counted in steps, of others in tokens: give `axis` to all")
    roles = typed([], ROLES) if roles is None else roles
    of_runs = [_changes(one, roles[roles["run"] == one.run] if len(roles) else roles) for one in found]
    numbered = zip(found, of_runs, _numbers(of_runs), strict=True)
    each = [(one.run, *row) for one, rows, numbers in numbered for row in _of_run(one, rows, numbers)]
    catalogue = tuple(dict.fromkeys(event for _, event, _ in each))
    place = {event: i for i, event in enumerate(catalogue)}
    records = ({"run": run, "event": place[event], "kind": str(event.kind), **times} for run, event, times in each)
    findings = typed(records, FINDINGS)
    quantities = {probe: dict(names) for one in found for probe, names in one.quantities.items()}
    last = max((int(one.table["end"].max()) for one in found), default=0)
    events = typed((_event(rows, len(names), last) for _, rows in findings.groupby("event", sort=False)), EVENTS)
    events = events.sort_values("step", kind="stable", ignore_index=True)
    recurring = events.loc[events["recurs"], "event"].tolist()
    order = typed(_ordered(findings, recurring), ORDER)
    return Replicates(names, findings, events, order, roles, catalogue, quantities, axes.pop())


def _changes(found: Stages, roles: pd.DataFrame) -> list[tuple[Event, Times]]:
    """Return the events of a run in order of time, each with the interval of its time."""
    if found.onsets.empty:
        return []
    onsets = with_roles(found.onsets[found.onsets["onset"]], roles).sort_values("t50", kind="stable")
    changes = []
    for row in onsets.to_dict("records"):
        labels, up = tuple(labels_of(row).items()), bool(row["after"] >= row["before"])
        event = Event(EventKind.ONSET, row["probe"], row["quantity"], labels, up)
        changes.append((event, {"step": row["t50"], "lo": row["t50_lo"], "hi": row["t50_hi"]}))
    return changes


def _of_run(
    found: Stages, changes: Sequence[tuple[Event, Times]], numbers: Sequence[int]
) -> Iterator[tuple[Event, Times]]:
    for row in found.turning_points.to_dict("records"):
        if row["boundary"]:
            event = Event(EventKind.BOUNDARY, reference=row["reference"])
            yield event, {name: row[name] for name in ("step", "lo", "hi")}
    for (change, times), number in zip(changes, numbers, strict=True):
        yield dataclasses.replace(change, number=number), times


def _numbers(of_runs: Sequence[Sequence[tuple[Event, Times]]]) -> list[list[int]]:
    """Return for each run which change of its score and direction each one is, by the times of the runs with as many
    as most have: one that is missing, or is seen besides, does not move the others.
    """
    numbers = [[0] * len(rows) for rows in of_runs]
    for change in {change for rows in of_runs for change, _ in rows}:
        places = [[i for i, (other, _) in enumerate(rows) if other == change] for rows in of_runs]
        times = [np.log1p([rows[i][1]["step"] for i in at]) for rows, at in zip(of_runs, places, strict=True)]
        counts = Counter(map(len, filter(len, places)))
        usual = max(counts, key=lambda number: (counts[number], number))
        typical = np.mean([each for each in times if len(each) == usual], axis=0)
        for run, (at, own) in enumerate(zip(places, times, strict=True)):
            chosen, slots = scipy.optimize.linear_sum_assignment(np.abs(own[:, None] - typical))
            rest = itertools.count(usual + 1)
            assigned = dict(zip(chosen.tolist(), (slots + 1).tolist(), strict=True))
            for i, place in enumerate(at):
                numbers[run][place] = assigned[i] if i in assigned else next(rest)
    return numbers


def _event(rows: pd.DataFrame, runs: int, last: int) -> dict[str, Any]:
    times, lo = np.log1p(rows["step"].to_numpy(float)), np.log1p(rows["lo"].to_numpy(float))
    hi = np.log1p(rows["hi"].to_numpy(float))
    # An end that the run may not have seen is as far as the other one.
    errors = np.where(np.isfinite(hi), hi - lo, 2 * (times - lo)) / (2 * QUANTILE)
    over = pooled(times, errors.clip(0))
    steps = dict(zip(("step", "lo", "hi", "new_lo", "new_hi"), np.expm1(over[:5]).clip(0).tolist(), strict=True))
    seeds = {"event": rows["event"].iloc[0], "kind": rows["kind"].iloc[0], "seeds": len(rows)}
    seeds |= {"recurs": len(rows) >= RECURS * runs}
    seen = {"least": float(rows["step"].min()), "most": float(rows["step"].max())}
    told = len(rows) >= FEWEST_SEEDS and steps["hi"] <= last
    return {**seeds, **_share(len(rows), runs), **steps, "between": over.between, **seen, "told": told}


def _ordered(findings: pd.DataFrame, events: Sequence[int]) -> Iterator[Mapping[str, Any]]:
    times = findings.pivot(index="run", columns="event", values="step")
    for before, after in itertools.pairwise(events):
        both = times[[before, after]].dropna()
        gaps = np.log1p(both[after].to_numpy(float)) - np.log1p(both[before].to_numpy(float))
        if len(gaps) < 2:
            continue
        apart = pooled(gaps, np.zeros(len(gaps)))
        if np.ptp(gaps) > 0:
            test = scipy.stats.ttest_1samp(gaps, 0).pvalue
        else:  # equal gaps have no variance to test against: the sign test
            test = scipy.stats.binomtest(len(gaps), len(gaps)).pvalue if gaps[0] else 1.0
        ratio = dict(zip(("ratio", "lo", "hi"), np.exp(apart[:3]).tolist(), strict=True))
        order = {"before": before, "after": after, "seeds": len(gaps), "p_value": float(test)}
        yield {**order, **_share(int((gaps > 0).sum()), len(gaps)), **ratio}


def _share(number: int, of: int) -> dict[str, float]:
    """Return a share with Clopper and Pearson's interval."""
    interval = scipy.stats.binomtest(number, of).proportion_ci(LEVEL)
    return {"share": number / of, "share_lo": float(interval.low), "share_hi": float(interval.high)}
