"""The transitions of a run, from all that was found in it: turning points of KL and onsets of scores, in one order."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from stagewise.criteria import DEFAULT, OnsetVerdict, StageCriteria
from stagewise.findings._frames import TIMES, TYPES
from stagewise.findings._periods import members_of_periods, under_way_together
from stagewise.findings.crossings import Crossing
from stagewise.table import Quantities, Quantity

MOVED = (OnsetVerdict.STEADY, OnsetVerdict.COMMON)
"""Verdicts on curves that moved by enough, of which it is not known when."""

ONE_AFTER_ANOTHER = 3
"""Onsets that can surely be told apart, from which on those of a transition follow one another."""

BACK = 0.25
"""Part of a curve's change, at most, that is left of it where it has come back to where it was."""

MAIN = 0.5
"""Part of the largest change of a curve in a transition from which on one that is sharper stands for it."""

MEANWHILE = 0.5
"""Part of the time that a curve is away, at least, in which others are under way, where that is on their way."""

VAGUE = 4.0
"""Median widths above which the window of an onset does not count for the time of its transition."""

NEVER = dict.fromkeys(TIMES, float("nan"))


class RunTransition(NamedTuple):
    """Where a stage begins: the step at which the model leaves a reference, or at which half of the onsets are
    half-way. `begins` is the step up to which nothing of it has happened, `times` are t10, t50 and t90.
    """

    step: int
    lo: int
    hi: int
    onsets: tuple[Any, ...] = ()
    left: str = ""
    closest: str = ""
    begins: float = float("nan")
    times: dict[str, float] = NEVER
    spread: bool = False

    @property
    def edge(self) -> tuple[int, int, int]:
        """The step and its interval."""
        return self.step, self.lo, self.hi


def transitions_of(
    onsets: pd.DataFrame,
    boundaries: Sequence[RunTransition],
    steps: np.ndarray,
    quantities: Quantities,
    criteria: StageCriteria = DEFAULT,
    taken_over: Sequence[Crossing] = (),
) -> list[RunTransition]:
    """Return the transitions of a run in their order, each with all onsets that belong to it.

    Where KL to a reference has its minimum the model begins to leave it; onsets that are half-way before the rest of
    that fall has happened are of this transition, and those before the first such minimum are of the approach to the
    first reference: of the first stage. All other onsets are divided into periods of change: one is a transition. Two
    onsets are of one where both curves are under way (10 to 90 %) for half of the shorter time of the two, or where
    their intervals overlap. A curve that leaves its level and comes back while others are under way, as the loss while
    one head takes over from another, is of theirs, and does not count for its time. A quantity of weights alone joins a
    transition, and is none; shares of heads' attention that change by less than `growth` are none without a larger
    change. Where another reference becomes the closest one is a transition, too, or joins the one under way.
    """
    if onsets.empty or not onsets["onset"].any():
        return [*boundaries, *map(_lone, taken_over)]
    found, rest = [], (windows := _with_windows(onsets[onsets["onset"]], steps))
    for one in boundaries:
        until = max(one.hi, one.times["t90"] if np.isfinite(one.times["t90"]) else one.hi)
        during = rest["opens"].le(np.log1p(until)) & rest["closes"].ge(np.log1p(one.lo)) & rest["t50"].ge(one.lo)
        found.append(one._replace(onsets=tuple(rest.index[during])))
        rest = rest[~during]
    if boundaries:
        rest = rest[rest["t50"] >= boundaries[0].lo]
    if rest.empty:
        return found
    known = [_declared(row, quantities) for row in rest[["probe", "quantity"]].to_dict("records")]
    weights = np.array([one is not None and one.weights for one in known])
    alone = rest[~weights]
    periods = _periods(alone, steps, criteria.consecutive)
    found += [_from_onsets(onsets, each, int(steps[-1])) for each in periods if _matters(each, quantities, criteria)]
    found = _with_weights(sorted(found, key=lambda one: one.edge), windows, rest[weights])
    found = _with_crossings(found, windows, taken_over)
    return [_after(before, one) for before, one in zip([None, *found], found, strict=False)]


def _after(before: RunTransition | None, one: RunTransition) -> RunTransition:
    """Return a transition that begins when the one before it is over, if it is half-way later than that."""
    if before is None:
        return one
    over = before.times["t90"] if np.isfinite(before.times["t90"]) else before.step
    return one._replace(begins=max(one.begins, min(over, float(one.step))))


def stage_rows(
    transitions: Sequence[RunTransition], first: RunTransition, last: int, complete: str
) -> list[dict[str, Any]]:
    """Return the rows of the stage table: what lies between transitions."""
    ends = [*transitions, RunTransition(last, last, last)]
    starts = [first, *transitions]
    return [
        {
            "stage": number,
            **dict(zip(("start", "start_lo", "start_hi"), start.edge, strict=True)),
            **dict(zip(("end", "end_lo", "end_hi"), end.edge, strict=True)),
            **{"begins": start.begins, **start.times, "left": start.left, "spread": start.spread},
            "closest": next((one.closest for one in reversed(starts[:number]) if one.closest), ""),
            "reference": next((one.left for one in ends[number - 1 :] if one.left), complete),
        }
        for number, (start, end) in enumerate(zip(starts, ends, strict=True), start=1)
    ]


def with_stages(onsets: pd.DataFrame, transitions: Sequence[RunTransition]) -> pd.DataFrame:
    """Return onsets with `starts_stage`, one a curve and direction in a transition: others are the same way's rest."""
    stage_of = {label: number for number, one in enumerate(transitions, start=2) for label in one.onsets}
    started = pd.Series([stage_of.get(label, pd.NA) for label in onsets.index], onsets.index, "Int64")
    if onsets.empty:
        return onsets.assign(starts_stage=started)
    curve = _curve(onsets)
    onsets = onsets.assign(starts_stage=started)
    of_stages = onsets[started.notna()]
    sharpest = [label for _, rows in of_stages.groupby("starts_stage") for label in _sharpest(rows, curve)]
    kept = onsets[started.isna() | onsets.index.isin(sharpest)]
    numbers = kept.groupby(curve).cumcount().add(1).astype("Int64")
    return kept.assign(transition=numbers).reset_index(drop=True)


def _sharpest(onsets: pd.DataFrame, curve: pd.Series) -> list[Any]:
    """Return the labels of the sharpest onset of each curve and direction, of those of half the largest one's size."""
    width, change = np.log1p(onsets["t90"]) - np.log1p(onsets["t10"]), onsets["after"] - onsets["before"]
    of_each = [curve, change.ge(0).rename("up")]
    large = change.abs().ge(MAIN * change.abs().groupby(of_each).transform("max"))
    labels: list[Any] = width[large].groupby(of_each).idxmin().tolist()
    return labels


def _curve(onsets: pd.DataFrame) -> pd.Series:
    """Return the number of the curve of each onset: their probe, quantity and axes are the columns of no onset."""
    axes = [name for name in onsets if name not in TYPES]
    return onsets.groupby(axes, dropna=False).ngroup().rename("curve")


def _with_windows(onsets: pd.DataFrame, steps: np.ndarray) -> pd.DataFrame:
    """Return onsets with the log(1 + step) between which each is under way, no narrower than its interval or its gap;
    that of a curve which is away while others are under way (`on_the_way`) is all of the time that it is away.
    """
    columns = (*TIMES, "t50_lo", "t50_hi")
    t10, t50, t90, lo, hi = (np.log1p(onsets[name].clip(upper=steps[-1]).to_numpy(float)) for name in columns)
    u = np.log1p(steps.astype(float))
    half = np.interp(t50, (u[1:] + u[:-1]) / 2, np.diff(u)) / 2
    opens, closes = np.minimum.reduce([lo, t10, t50 - half]), np.maximum.reduce([hi, t90, t50 + half])
    curve = _curve(onsets)
    away = _excursions(onsets, curve.to_numpy())
    others = np.setdiff1d(np.arange(len(onsets)), [end for ends in away for end in ends])
    on_the_way = np.zeros(len(onsets), bool)
    for ends in away:
        between = np.linspace(t50[ends[0]], t50[ends[1]], 100)[:, None]
        meanwhile = ((opens[others] <= between) & (between <= closes[others])).any(axis=1)
        if meanwhile.mean() >= MEANWHILE:
            opens[ends], closes[ends], on_the_way[ends] = opens[ends].min(), closes[ends].max(), True
    return onsets.assign(opens=opens, closes=closes, on_the_way=on_the_way, curve=curve)


def _excursions(onsets: pd.DataFrame, curve: np.ndarray) -> list[list[int]]:
    """Return the places of two onsets of one curve after which it is back at its level before the first."""
    order = np.argsort(onsets["t50"].to_numpy(float), kind="stable")
    before, after = (onsets[name].to_numpy(float) for name in ("before", "after"))
    pairs = [pair for each in np.unique(curve) for pair in pairwise(order[curve[order] == each].tolist())]
    return [[i, j] for i, j in pairs if abs(after[j] - before[i]) <= BACK * abs(after[i] - before[i])]


def _periods(onsets: pd.DataFrame, steps: np.ndarray, fewest: int) -> list[pd.DataFrame]:
    if onsets.empty:
        return []
    first, last = int(steps[0]), int(steps[-1])
    t50, lo, hi = (np.log1p(onsets[name].clip(upper=last).to_numpy(float)) for name in ("t50", "t50_lo", "t50_hi"))
    periods = members_of_periods(t50, lo, hi, onsets["curve"].to_numpy(), first, last, fewest)
    together = [[i for time in period for i in time] for period in periods]
    opens, closes = (onsets[name].to_numpy() for name in ("opens", "closes"))
    of_head = onsets.groupby([name for name in ("layer", "head") if name in onsets], dropna=False).ngroup().to_numpy()
    part = np.where(onsets["head"].isna(), -1, of_head)
    groups = under_way_together(together, opens, closes, hi - lo, part)
    return [onsets.iloc[group].sort_values("t50", kind="stable") for group in groups]


def _from_onsets(onsets: pd.DataFrame, group: pd.DataFrame, last: int) -> RunTransition:
    """Return the transition of a period of change, between the medians of the ends of its onsets' intervals.

    Windows far wider than the median one say little about when. Where onsets follow one another, the interval holds
    what the medians would be if the curves that moved without one had all come first, or last. Of two times that are
    apart it is from the first to the last: between them is neither.
    """
    timing = group.loc[_sharpest(group, group["curve"])]
    timing = timing if timing["on_the_way"].all() else timing[~timing["on_the_way"]]
    width = timing["closes"] - timing["opens"]
    sharp = timing[width <= VAGUE * width.median()]
    ends = sharp[["t50_lo", "t50_hi"]].clip(upper=last)
    spread = _distinct(*ends.to_numpy(float).T) >= ONE_AFTER_ANOTHER
    unknown = _unknown(onsets, sharp) if spread else 0
    shift = min(unknown / (2 * max(len(sharp) - 1, 1)), 0.5)
    lo, hi = float(ends["t50_lo"].quantile(0.5 - shift)), float(ends["t50_hi"].quantile(0.5 + shift))
    if len(whole := ends[sharp["head"].isna()]):
        lo, hi = min(lo, float(whole["t50_lo"].median())), max(hi, float(whole["t50_hi"].median()))
    if not spread and not sharp["t50"].between(lo, hi).any():
        lo, hi, spread = float(ends["t50_lo"].min()), float(ends["t50_hi"].max()), True
    times = {name: round(float(sharp[name].median()), 1) for name in TIMES}
    early, half = (np.log1p(sharp[name].to_numpy(float)) for name in ("t10", "t50"))
    begins = float(np.expm1((2 * early - half).clip(min=0).min()))
    return RunTransition(
        step=round(sharp["t50"].median()), lo=math.floor(round(lo, 6)), hi=math.ceil(round(hi, 6)),
        onsets=tuple(group.index), begins=begins, times=times, spread=spread,
    )  # fmt: skip


def _distinct(lo: np.ndarray, hi: np.ndarray) -> int:
    """Return the largest number of intervals none of which overlaps another."""
    number, end = 0, -np.inf
    for start, stop in sorted(zip(lo, hi, strict=True), key=lambda each: each[1]):
        if start > end:
            number, end = number + 1, stop
    return number


def _unknown(onsets: pd.DataFrame, group: pd.DataFrame) -> int:
    """Return how many curves of the scores that some onsets are of moved, at a time that is not known."""
    score = ["probe", "quantity", "relation"]
    others = onsets.loc[~onsets["onset"] & onsets["verdict"].isin(MOVED), score]
    return len(others.merge(group[score].drop_duplicates()))


def _declared(row: dict[Any, Any], quantities: Quantities) -> Quantity | None:
    return quantities.get(row["probe"], {}).get(row["quantity"])


def _matters(onsets: pd.DataFrame, quantities: Quantities, criteria: StageCriteria) -> bool:
    """Whether any change is of the whole model, or of a head by so much that it would be named for it."""
    for row in onsets.to_dict("records"):
        known = _declared(row, quantities)
        share_of_head = known is not None and known.range == (0, 1) and pd.notna(row["head"])
        if not share_of_head or abs(row["after"] - row["before"]) >= criteria.growth:
            return True
    return False


def _with_weights(found: list[RunTransition], windows: pd.DataFrame, rest: pd.DataFrame) -> list[RunTransition]:
    """Return transitions with the onsets of weights that overlap one of their own."""
    joined: list[list[Any]] = [[] for _ in found]
    of_found = [windows.loc[list(one.onsets)] for one in found]
    for label, opens, closes in zip(rest.index, rest["opens"], rest["closes"], strict=True):
        over = (bool(((opens <= own["closes"]) & (own["opens"] <= closes)).any()) for own in of_found)
        if (number := next((number for number, overlaps in enumerate(over) if overlaps), None)) is not None:
            joined[number].append(label)
    return [one._replace(onsets=(*one.onsets, *labels)) for one, labels in zip(found, joined, strict=True)]


def _with_crossings(
    found: Sequence[RunTransition], windows: pd.DataFrame, taken_over: Sequence[Crossing]
) -> list[RunTransition]:
    """Return transitions with the reference that becomes the closest one while they are under way, or of its own."""
    all_of_them = list(found)
    for crossing in taken_over:
        place = next((place for place, one in enumerate(found) if _is_during(crossing, one, windows)), None)
        if place is None:
            all_of_them.append(_lone(crossing))
        else:
            all_of_them[place] = all_of_them[place]._replace(closest=crossing.after)
    return sorted(all_of_them, key=lambda one: one.edge)


def _is_during(crossing: Crossing, one: RunTransition, windows: pd.DataFrame) -> bool:
    of_one = windows.loc[list(one.onsets)]
    opens, closes = min([one.lo, *np.expm1(of_one["opens"])]), max([one.hi, *np.expm1(of_one["closes"])])
    return bool(opens <= crossing.hi and crossing.lo <= closes)


def _lone(crossing: Crossing) -> RunTransition:
    lo, hi = math.floor(crossing.lo), math.ceil(crossing.hi)
    return RunTransition(round((lo + hi) / 2), lo, hi, closest=crossing.after, begins=crossing.lo)
