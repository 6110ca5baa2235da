"""Right, incomplete or wrong: decided from events, never from words."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from evidence.answers.case import Change, Truth
from evidence.answers.told import CAUSE, Told, kinds, transitions
from stagewise import Stages

NEAR = 1.0
"""A transition is at a place, if not in its interval, where it misses it by no more than so many of its widths."""


class Verdict(StrEnum):
    """How an answer compares with the truth."""

    RIGHT = "right"
    """All of it is told, and nothing else."""

    INCOMPLETE = "incomplete"
    """All that is told is true, but not all that is true is told, or an interval misses the true time by a little."""

    WRONG = "wrong"
    """Something is told that is not true: a transition too many, at another time, of another head; or that there was
    none."""


class Judgement(NamedTuple):
    """A verdict, and the reasons against the answer."""

    verdict: Verdict
    reasons: tuple[str, ...] = ()


def judged(truth: Truth, stages: Stages) -> Judgement:
    """Compare the truth of a run with what was found in it."""
    if truth.unknown:
        return judged_events(Truth(), transitions(stages), frozenset(), unknown=True)
    if stages.unknown:
        return Judgement(Verdict.INCOMPLETE, ("nothing is told of so few checkpoints",))
    return judged_events(truth, transitions(stages), kinds(stages))


def judged_events(truth: Truth, told: Sequence[Told], named: frozenset[str], *, unknown: bool = False) -> Judgement:
    """Compare true transitions and kinds with told ones."""
    false, missing, left = list[str](), list[str](), list(told)
    for number, change in enumerate(truth.changes, start=1):
        near = [one for one in left if _misses(change, one) <= NEAR * max(one.hi - one.lo, change.hi - change.lo, 1)]
        if not near:
            missing.append(f"transition {number} is not told")
            continue
        one = min(near, key=lambda each: _misses(change, each))
        left.remove(one)
        if _misses(change, one) > 0:
            missing.append(f"the interval of transition {number} misses its time")
        _compare(number, change, one, false, missing)
    false += [f"a transition at {one.lo:g} to {one.hi:g} that was none" for one in left if not _may(truth, one)]
    if truth.changes and not told:
        false.append("no transition is told")
    if not unknown:
        false += [f"{kind} is told, which was not" for kind in sorted(named - truth.kinds - {CAUSE})]
        missing += [f"{kind} is not told" for kind in sorted(truth.kinds - named)]
    if false:
        return Judgement(Verdict.WRONG, (*false, *missing))
    return Judgement(Verdict.INCOMPLETE if missing else Verdict.RIGHT, tuple(missing))


def _may(truth: Truth, one: Told) -> bool:
    """Return whether a transition may be told: where its interval holds a time at which a head that it names did
    change, or at which something of the whole model may be told.
    """
    return any(_misses(change, one) == 0 and (change.heads is None or change.heads & one.heads) for change in truth.may)


def _misses(change: Change, one: Told) -> float:
    """Return by how many steps an interval misses a time."""
    return max(one.lo - change.hi, change.lo - one.hi, 0.0)


def _compare(number: int, change: Change, one: Told, false: list[str], missing: list[str]) -> None:
    if change.lost != one.lost:
        false.append(f"transition {number} is told as {'a loss' if one.lost else 'a gain'}")
    if change.cause and not one.cause:
        missing.append(f"what was done to the run at transition {number} is not told")
    if change.heads is None:
        return
    false += [f"transition {number} names {head}" for head in sorted(one.heads - change.heads - change.also)]
    missing += [f"transition {number} does not name {head}" for head in sorted(change.heads - one.heads)]
