"""Transitions of a run, when each begins and comes, and how much later it comes in a run of the same batch."""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from stagewise.findings import resamples_of
from stagewise.statistics import LEVEL, Direction, crossing, crossing_step
from stagewise.table import Head, Role, heads_in, select, with_role

HALF = 0.5
"""Part of a curve's way at which a transition is taken to have come."""

LOSS_PARTS = (HALF, 0.9)
"""Parts of its way to its end at which the loss is looked at: where several stages are left, the first and the last."""

BEGUN = 0.2
"""Part of its way to the level of a transition at which a curve has begun to come: of attention, a tenth of all."""

LEAST = 0.1
"""Attention that some head must gain for there to be a transition."""

LEAST_FALL = 0.01
"""Part of the whole fall of the loss that must be left: with less a converged loss creeps on, and none comes."""

LOSSES = Role.LOSS, Role.SQUARED_ERROR
ATTENTION = Role.ATTENTION, Role.ATTENTION_ALONG

STALLED = 0.2
"""Part of the way left to a transition that a curve covers in the second half of a run; with less it has stalled."""

NOTHING = "delays are of attention or of the loss: measure either"


class Transition(NamedTuple):
    """Something that comes.

    Args:
        what: its label, as in "attention to I(2)" or "loss 0.5".
        levels: that a curve reaches then, of the batch itself and of each resample, in which both runs share it; nan
            where the loss of a resample does not fall, so that nothing is known of it.
        direction: from which side it does.
        relation: that a head attends to then; None where the loss falls.
    """

    what: str
    levels: Float[np.ndarray, " draw"]
    direction: Direction
    relation: str | None = None


class Arrival(NamedTuple):
    """When a transition begins and comes, optimiser steps: the last checkpoint before it begins, and its own time."""

    what: str
    begins: int
    comes: float


class Delay(NamedTuple):
    """How many steps later a transition comes.

    `value` is the difference of the two times between checkpoints; it lies within [lo, hi] in 95 % of the resamples of
    the batch, whose ends are the checkpoints around both times. In each the level to reach is that of the undisturbed
    run there. Where it does not come any more, value and hi are inf; `moving` says whether it was still on its way.
    """

    what: str
    value: float
    lo: float
    hi: float
    moving: bool


def transitions(table: pd.DataFrame, start: int) -> list[Transition]:
    """Return the transitions of a run that come after a step: a head attends to a relation; the loss falls.

    A head attends to a relation when the largest attention of any head has come half-way from its first to its
    largest value. The loss falls when it is half-way, or nine tenths of the way, from its value at the step to its
    last, where at least a hundredth of its whole fall is left at the step. So in each resample of the batch, too: what
    moves its whole curve up or down moves the level with it. Which transitions there are, the batch itself says.

    Args:
        table: of one run, with attention to relations or the loss.
        start: optimiser updates.
    """
    steps = np.sort(table["step"].unique())
    found = []
    for relation, curve in _attention(table, ()).items():
        first, most = curve[:, 0], curve.max(1)
        half = first + HALF * (most - first)
        if most[0] - first[0] >= LEAST and crossing(steps, curve[0], half[0]).lo >= start:
            found.append(Transition(f"attention to {relation}", half, "up", relation))
    for curve in _loss(table):
        here, last = curve[:, steps <= start][:, -1], curve[:, -1]
        if last[0] < here[0] and here[0] - last[0] >= LEAST_FALL * (curve[0].max() - last[0]):
            for part in LOSS_PARTS:
                levels = np.where(last < here, here + part * (last - here), np.nan)
                found.append(Transition(f"loss {part:g}", levels, "down"))
    return found


def arrivals(table: pd.DataFrame, start: int = 0) -> list[Arrival]:
    """Return when each transition of a run that comes after a step begins, in 97.5 % of the resamples, and comes."""
    result = []
    for transition in transitions(table, start):
        first = _curves(table, transition, ())[:, 0]
        begun = transition._replace(levels=first + BEGUN * (transition.levels - first))
        begins = np.quantile(_times(table, begun, start, ()).lo, (1 - LEVEL) / 2, method="lower")
        result.append(Arrival(transition.what, int(begins), float(_times(table, transition, start, ()).between[0])))
    return result


def delays(run: pd.DataFrame, other: pd.DataFrame, start: int, without: Collection[Head] = ()) -> list[Delay]:
    """Return how much later each transition of a run after a step comes in another run.

    Args:
        run: its table, measured on the same batch as the other's: their resamples are paired.
        other: that of the other run.
        start: the step from which on the two differ.
        without: heads of the other run whose attention does not count, as those held out.

    Raises:
        ValueError: the tables have neither attention to relations nor the loss.
    """
    if not with_role(run, *ATTENTION, *LOSSES):
        raise ValueError(NOTHING)
    result = []
    for transition in transitions(run, start):
        mine, theirs = (_times(table, transition, start, heads) for table, heads in ((run, ()), (other, without)))
        lo, hi = theirs.lo - mine.hi, theirs.hi - mine.lo
        tail = (1 - LEVEL) / 2
        value = float(theirs.between[0] - mine.between[0])
        ends = (float(np.quantile(lo, tail, method="lower")), float(np.quantile(hi, 1 - tail, method="higher")))
        result.append(Delay(transition.what, value, min(ends[0], value), max(ends[1], value), theirs.moving))
    return result


class _Times(NamedTuple):
    """When a transition comes in each draw: between which checkpoints, where between them; inf where it does not.
    `moving` says that it does not in the batch itself, whose curve has not stalled.
    """

    lo: np.ndarray
    hi: np.ndarray
    between: np.ndarray
    moving: bool


def _times(table: pd.DataFrame, transition: Transition, start: int, without: Collection[Head]) -> _Times:
    every = np.sort(table["step"].unique()).astype(float)
    since = every >= every[every <= start][-1]  # what was reached before, and lost again, is no transition after it
    steps, sign = every[since], 1.0 if transition.direction == "up" else -1.0
    curves = _curves(table, transition, without)
    # A curve without resamples is the same in all of the other one's.
    signed, levels = np.broadcast_arrays(sign * curves[:, since], sign * transition.levels[:, None])
    draws = list(zip(signed, levels[:, 0], strict=True))
    intervals = [crossing(steps, curve, level) for curve, level in draws]
    between = [
        np.inf if interval.censored else crossing_step(steps, curve, level)
        for (curve, level), interval in zip(draws, intervals, strict=True)
    ]
    lo, hi = np.array(intervals).T
    middle, last = signed[0, np.searchsorted(steps, (steps[0] + steps[-1]) / 2)], signed[0, -1]
    moving = between[0] == np.inf and last > middle and last - middle >= STALLED * (levels[0, 0] - middle)
    return _Times(lo, hi, np.array(between), bool(moving))


def _curves(table: pd.DataFrame, transition: Transition, without: Collection[Head]) -> np.ndarray:
    """Return the curve that reaches a transition's level, and its resamples where there are any: [draw, step]."""
    return _loss(table)[0] if transition.relation is None else _attention(table, without)[transition.relation]


def _attention(table: pd.DataFrame, without: Collection[Head]) -> dict[str, np.ndarray]:
    """Return by relation the largest attention of any head, [draw, step]: the first row is that of the batch itself."""
    result: dict[str, np.ndarray] = {}
    # Where a relation starts somewhere in every sequence, along all of it.
    for probe, quantity in (pair for role in ATTENTION for pair in with_role(table, role)[:1]):
        rows = table[(table["probe"] == probe) & (table["quantity"] == quantity)]
        for relation, of_relation in rows.groupby("relation", sort=False):
            curves = [
                _draws(of_relation[(of_relation["layer"] == layer) & (of_relation["head"] == head)])
                for layer, head in heads_in(of_relation)
                if (layer, head) not in set(without)
            ]
            # Where no head is left, none ever attends.
            result[str(relation)] = np.max(curves or [np.full((1, of_relation["step"].nunique()), -np.inf)], axis=0)
    return result


def _loss(table: pd.DataFrame) -> list[np.ndarray]:
    return [_draws(select(table, *pair)) for pair in with_role(table, *LOSSES)[:1]]


def _draws(rows: pd.DataFrame) -> np.ndarray:
    """Return a curve, and the curve in every resample of the batch where there are any: [draw, step]."""
    rows = rows.sort_values("step")
    value = rows["value"].to_numpy(float)[None]
    draws = resamples_of(rows)
    return value if draws is None else np.concatenate([value, draws])
