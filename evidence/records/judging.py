"""Right, incomplete, wrong or refused: decided from what an answer tells as data, never from its words."""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from evidence.records.told import Answer, Change, Episode
from evidence.records.truth import Event, Truth

SLACK = 0.15
"""Part of an interval's width by which a time may lie outside it."""

VAGUE = 5.0
"""Times the width of a true interval from which on a told one says too little."""

GROKS = "groks"
"""The episode that stands for any change that has to be told: training and test are learned, one after the other."""


class Verdict(StrEnum):
    """How an answer compares with the truth."""

    RIGHT = "right"
    """All that has to be told is told, and nothing else."""

    INCOMPLETE = "incomplete"
    """Nothing that is told is wrong, but an event or some of its curves are missing, or told too vaguely."""

    WRONG = "wrong"
    """An event is told that was none, in a curve that is none, or a known cause as learning."""

    REFUSED = "refused"
    """There is no answer."""


class Judgement(NamedTuple):
    """A verdict, and the reasons against the answer."""

    verdict: Verdict
    reasons: tuple[str, ...] = ()


def judged(truth: Truth, answer: Answer | None) -> Judgement:
    """Compare the truth of a record with an answer; None is a refusal."""
    if answer is None:
        return Judgement(Verdict.RIGHT if truth.refused else Verdict.REFUSED, ("no answer",))
    of_episodes = [reason for one in answer.episodes for reason in _wrong_episode(truth, one)]
    wrong = [*(reason for one in answer.changes for reason in _wrong(truth, one)), *of_episodes]
    if answer.transitions > truth.most and not wrong:
        wrong.append(f"{answer.transitions} events, at most {truth.most}")
    wrong += _impossible(truth, answer)
    missing = [*_vague(truth, answer), *_missing(truth, answer)]
    verdict = Verdict.WRONG if wrong else Verdict.INCOMPLETE if missing else Verdict.RIGHT
    return Judgement(verdict, (*wrong, *missing))


def _is_of(names: tuple[str, ...], pattern: str) -> bool:
    return any(re.search(pattern, name) for name in names)


def _is_forbidden(truth: Truth, change: Change) -> bool:
    return any(_is_of(change.names, one.curves) for one in truth.never)


def _events(truth: Truth, change: Change) -> list[Event]:
    """Return the events that a change may be, by its curve and its time."""
    return [event for event in truth.events if _is_of(change.names, event.curves) and _is_within(change, event)]


def _is_within(change: Change, event: Event) -> bool:
    slack = SLACK * (event.hi - event.lo)
    overlaps = change.hi >= event.lo and change.lo <= event.hi
    return overlaps and event.lo - slack <= change.half_way <= event.hi + slack


def _fits(event: Event, change: Change) -> bool:
    """Whether the direction of a change is that of an event."""
    return event.direction in ("either", change.direction) or not change.direction


def _wrong(truth: Truth, change: Change) -> Iterator[str]:
    """Yield what is wrong about a change that is told."""
    told = f"{change.names[-1]} {change.direction} at {change.half_way:.0f} [{change.lo:.0f}, {change.hi:.0f}]"
    reason = next((one.why for one in truth.never if _is_of(change.names, one.curves)), "")
    near = _events(truth, change)
    fitting = [event for event in near if _fits(event, change)]
    if reason:
        yield f"{told}: {reason}"
    elif not fitting:
        yield f"{told}, the other way" if near else f"{told}, which was none"
    elif all(event.cause_needed for event in fitting) and not change.cause:
        yield f"{told} without its cause"


def _wrong_episode(truth: Truth, episode: Episode) -> Iterator[str]:
    """Yield what is wrong about an episode: its kind, or a curve that is said to be learned late, may not be told."""
    for one in truth.never:
        of_curve = episode.kind == GROKS and _is_of(episode.names, one.curves)
        if one.curves != "." and (re.fullmatch(one.curves, episode.kind) or of_curve):
            yield f"{episode.kind} of {episode.names[0]}: {one.why}"
            return


def _impossible(truth: Truth, answer: Answer) -> Iterator[str]:
    """Yield what would be seen of curves that are none, or only beyond what a curve can be."""
    for one in answer.visible:
        if any(never.no_curve and _is_of(one.names, never.curves) for never in truth.never):
            yield f"what would be seen in {one.names[0]}, which is no curve that learns"
        elif truth.bounded and _is_of(one.names, truth.bounded) and one.size > 1:
            yield f"{one.names[0]} would be seen to change by {one.size:.2g} or more"


def _vague(truth: Truth, answer: Answer) -> Iterator[str]:
    for change in answer.changes:
        for event in () if _is_forbidden(truth, change) else _events(truth, change):
            if event.required and _fits(event, change) and change.hi - change.lo > VAGUE * (event.hi - event.lo):
                yield f"{change.names[-1]} only within [{change.lo:.0f}, {change.hi:.0f}]"


def _missing(truth: Truth, answer: Answer) -> Iterator[str]:
    """Yield events that have to be told and are not, or of too few of their curves."""
    allowed = [change for change in answer.changes if not _is_forbidden(truth, change)]
    for event in (event for event in truth.events if event.required):
        curves = {one.names[-1] for one in allowed if event in _events(truth, one) and _fits(event, one)}
        curves |= {one.names[-1] for one in answer.episodes if _is_episode(event, one)}
        if len(curves) < event.named:
            yield f"{len(curves)} of {event.named} curves {event.curves} within {event.lo:g}-{event.hi:g}"


def _is_episode(event: Event, episode: Episode) -> bool:
    overlaps = episode.end >= event.lo and episode.start <= event.hi
    return episode.kind in (event.kind, GROKS) and _is_of(episode.names, event.curves) and overlaps
