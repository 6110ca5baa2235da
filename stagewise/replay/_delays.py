"""Transitions that a run's answer names, as the loss and attention show them, and how much later each comes."""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from stagewise.findings import Stages, resamples_of
from stagewise.findings.behaviour import LAST, find_behaviour
from stagewise.statistics import LEVEL, crossing, crossing_step
from stagewise.table import Head, Role, heads_in, select, with_role

LEAST_FALL = 0.01
"""Part of its whole range by which the loss must fall in a transition to show it: with less a converged one creeps."""

LEAST = 0.1
"""Attention to a relation that some head must gain in a transition to show it."""

BEHAVIOUR = "the behaviour"
"""The label of the transition in which a behaviour comes."""

STALLED = 0.2
"""Part of the way left to a transition that a curve covers in the second half of a run; with less it has stalled."""


class Transition(NamedTuple):
    """A transition of a run's answer, as a curve shows it.

    Args:
        event: its number in the answer, from 1 on.
        label: "transition 2" is that of the loss, "attention to I(2)" that of a relation, or `BEHAVIOUR`.
        begins: the last checkpoint before any of it.
        comes: the step at which it is half-way.
        levels: that the curve reaches then, of the batch itself and of each resample, in which both runs share it;
            nan where the loss of a resample does not fall, so that nothing is known of it.
        relation: that a head attends to then; None of the loss, whose curve is minus the loss, and of a behaviour.
    """

    event: int
    label: str
    begins: int
    comes: float
    levels: Float[np.ndarray, " draw"]
    relation: str | None = None


class Delay(NamedTuple):
    """How many steps later a transition comes.

    `value` is the difference of the two times between checkpoints; it lies within [lo, hi] in 95 % of the resamples of
    the batch, whose ends are the checkpoints around both times. In each the level to reach is that of the undisturbed
    run there. Where it does not come any more, value and hi are inf; `moving` says whether it was still on its way.
    """

    event: int
    transition: str
    value: float
    lo: float
    hi: float
    moving: bool


def transitions(stages: Stages | None, table: pd.DataFrame, start: int) -> list[Transition]:
    """Return the transitions that a run's answer names, as curves show that they come after a step.

    The loss shows one in which it falls, by its level half-way. The largest attention of any head to a relation shows
    one in which a head has an onset of such attention, by its level when the first such onset is half-way. So in each
    resample of the batch, too: what moves its whole curve up or down moves the level with it.

    Args:
        stages: the answer; None names none.
        table: of the run, with attention to relations or the loss.
        start: optimiser updates.
    """
    if stages is None:
        return []
    steps, curves, found = np.sort(table["step"].unique()), _curves(table, ()), list[Transition]()
    for row in stages.table.iloc[1:].to_dict("records"):
        event, first = row["stage"] - 1, max(min(row["begins"], row["start_lo"]), steps[0])
        begins = int(steps[steps <= first][-1])
        ends = [row[at] if np.isfinite(row[at]) else row[edge] for at, edge in (("t50", "start"), ("t90", "end"))]
        shown = [(f"transition {event}", None, *ends)]
        shown += [(f"attention to {one[0]}", *one) for one in _onsets_of_attention(stages.onsets, row["stage"])]
        for label, relation, half, over in shown:
            if (curve := curves.get(relation)) is None:
                continue
            # Interpolated in log(1 + step), as crossings are.
            times, u = np.log1p([begins, half, over]), np.log1p(steps)
            before, level, after = np.array([np.interp(times, u, draw) for draw in curve]).T
            least = LEAST if relation else LEAST_FALL * np.ptp(curve[0])
            if after[0] - before[0] >= least and curve[0, steps <= max(start, begins)][-1] < level[0]:
                levels = np.where(after > before, level, np.nan)
                found.append(Transition(event, label, begins, float(half), levels, relation))
    return found


def behaviour_after(table: pd.DataFrame, start: int) -> list[Transition]:
    """Return the transition in which a behaviour comes, where it comes after a step: the logit difference gets half-way
    from 0 to where it is at the end. It begins at the last checkpoint at which the right answer is not surely
    preferred.
    """
    found = find_behaviour(table)
    if found is None or not found.came:
        return []
    steps, curves = np.sort(table["step"].unique()), _curves(table, ())[None]
    levels = np.median(curves[:, -LAST:], axis=1) / 2
    since = np.searchsorted(steps, steps[1] if found.since is None else found.since) - 1
    comes = crossing_step(steps[since:].astype(float), curves[0, since:], levels[0])
    begins = int(steps[since])
    if curves[0, steps <= max(start, begins)][-1] >= levels[0]:
        return []
    return [Transition(1, BEHAVIOUR, begins, comes, np.where(levels > 0, levels, np.nan))]


def _onsets_of_attention(onsets: pd.DataFrame, stage: int) -> list[tuple[str, float, float]]:
    """Return the relations that heads begin to attend to as a stage begins, with t50 and t90 of their first onset."""
    rising = onsets[(onsets["starts_stage"] == stage) & (onsets["after"] > onsets["before"])]
    rows = rising.dropna(subset=["relation"]).sort_values("t50", kind="stable").drop_duplicates("relation")
    return list(zip(rows["relation"], rows["t50"], rows["t90"], strict=True))


def delays(
    transitions: Collection[Transition],
    run: pd.DataFrame,
    other: pd.DataFrame,
    start: int,
    without: Collection[Head] = (),
) -> list[Delay]:
    """Return how much later each transition comes in another run.

    Args:
        transitions: after the step.
        run: its table, measured on the same batch as the other's: their resamples are paired.
        other: that of the other run.
        start: the step from which on the two differ.
        without: heads of the other run whose attention does not count, as those held out.
    """
    sides, result = ((run, ()), (other, without)), []
    both = [(np.sort(table["step"].unique()), _curves(table, heads)) for table, heads in sides]
    for one in transitions:
        mine, theirs = (_times(steps, curves[one.relation], one.levels, start) for steps, curves in both)
        lo, hi = theirs.lo - mine.hi, theirs.hi - mine.lo
        tail = (1 - LEVEL) / 2
        value = float(theirs.between[0] - mine.between[0]) if np.isfinite(mine.between[0]) else np.nan
        ends = (float(np.quantile(lo, tail, method="lower")), float(np.quantile(hi, 1 - tail, method="higher")))
        result.append(Delay(one.event, one.label, value, min(ends[0], value), max(ends[1], value), theirs.moving))
    return result


class _Times(NamedTuple):
    """When a transition comes in each draw: between which checkpoints, where between them; inf where it does not."""

    lo: np.ndarray
    hi: np.ndarray
    between: np.ndarray
    moving: bool


def _times(every: np.ndarray, curves: np.ndarray, levels: np.ndarray, start: int) -> _Times:
    since = every >= every[every <= start][-1]  # what was reached before, and lost again, is no transition after it
    steps = every[since].astype(float)
    # A curve without resamples is the same in all of the other one's.
    curves, levels = np.broadcast_arrays(curves[:, since], levels[:, None])
    draws = list(zip(curves, levels[:, 0], strict=True))
    intervals = [crossing(steps, curve, level) for curve, level in draws]
    between = [
        np.inf if interval.censored else crossing_step(steps, curve, level)
        for (curve, level), interval in zip(draws, intervals, strict=True)
    ]
    lo, hi = np.array(intervals).T
    middle, last = curves[0, np.searchsorted(steps, (steps[0] + steps[-1]) / 2)], curves[0, -1]
    moving = between[0] == np.inf and last > middle and last - middle >= STALLED * (levels[0, 0] - middle)
    return _Times(lo, hi, np.array(between), bool(moving))


def _curves(table: pd.DataFrame, without: Collection[Head]) -> dict[str | None, np.ndarray]:
    """Return by relation the largest attention of any head, and under None minus the loss, or the logit difference of a
    behaviour, [draw, step]: the first row is that of the batch itself.
    """
    result: dict[str | None, np.ndarray] = {}
    for pair in with_role(table, Role.LOSS, Role.SQUARED_ERROR)[:1]:
        result[None] = -_draws(select(table, *pair))
    for pair in with_role(table, Role.BEHAVIOUR)[:1]:
        result[None] = _draws(select(table, *pair))
    # Where a relation starts somewhere in every sequence, along all of it.
    roles = Role.ATTENTION, Role.ATTENTION_ALONG
    for pair in (pair for role in roles for pair in with_role(table, role)[:1]):
        for relation, of_relation in select(table, *pair).groupby("relation", sort=False):
            curves = [
                _draws(of_relation[(of_relation["layer"] == layer) & (of_relation["head"] == head)])
                for layer, head in heads_in(of_relation)
                if (layer, head) not in set(without)
            ]
            # Where no head is left, none ever attends.
            result[str(relation)] = np.max(curves or [np.full((1, of_relation["step"].nunique()), -np.inf)], axis=0)
    return result


def _draws(rows: pd.DataFrame) -> np.ndarray:
    """Return a curve, and the curve in every resample of the batch where there are any: [draw, step]."""
    rows = rows.sort_values("step")
    value = rows["value"].to_numpy(float)[None]
    draws = resamples_of(rows)
    return value if draws is None else np.concatenate([value, draws])
