"""Whether a transition counts as an onset, and what a curve did that has none."""

from typing import NamedTuple

import numpy as np

from stagewise.findings.known_causes import Causes, cause_during, cause_within
from stagewise.statistics._criteria import StageCriteria
from stagewise.statistics._noise.differences import noise, smoothed
from stagewise.statistics._noise.residual import without_outliers
from stagewise.statistics._transition import Transition
from stagewise.statistics._verdicts import OnsetVerdict

AHEAD = 1
"""Gaps between checkpoints before the one that a transition's first tenth lies in, in which its cause may lie."""


class Move(NamedTuple):
    """The largest change of a curve's level, up or down, its noise, and why it is no onset."""

    before: float
    after: float
    noise: float
    verdict: OnsetVerdict


def rejection(one: Transition, p_adjusted: float, criteria: StageCriteria, cause: str = "") -> OnsetVerdict | None:
    """Return why a transition is no onset; None where it is one."""
    if min(abs(one.size), abs(one.change)) < criteria.smallest:
        return OnsetVerdict.SMALL
    if one.net < criteria.lasting:
        return OnsetVerdict.SPIKE
    if one.preceding < criteria.preceding:
        return OnsetVerdict.EARLY
    if abs(one.size) < criteria.peak * one.noise:
        return OnsetVerdict.NOISE
    if one.share(criteria.local) < criteria.share:
        return OnsetVerdict.GRADUAL
    if one.prominence < criteria.stands_out:
        return OnsetVerdict.LATE if one.following < criteria.preceding else OnsetVerdict.COMMON
    if one.correlation >= criteria.slow and one.walk < criteria.walk:
        return OnsetVerdict.WANDERS
    if p_adjusted >= criteria.false_discoveries:
        return OnsetVerdict.STEADY
    return OnsetVerdict.COINCIDES if cause else None


def coincidence(one: Transition, causes: Causes, steps: np.ndarray) -> str:
    """Return the cause with its step that may have begun a transition, the last one before t10; else nothing.

    What a cause does is seen later: a gap before that of t10, or as long as from t10 to t50, are near enough. What
    happened when half of the way was made did not begin it: t50's interval is the end, t50 where that is open. In a
    cause that lasts some steps lies what was half-way then.
    """
    (early, begins, _), (middle, lo, hi), _ = one.times
    u = np.log1p(steps)
    ahead = u[max(int(np.searchsorted(u, early, side="right")) - 1 - AHEAD, 0)]
    first, last = min(lo, begins, ahead, 2 * early - middle), hi if hi < u[-1] else middle
    at_a_step = cause_within(causes, np.expm1(first), np.expm1(last), np.expm1(early))
    return at_a_step or cause_during(causes, np.expm1(middle), steps.tolist())


def moved(values: np.ndarray, criteria: StageCriteria) -> Move:
    """Return the largest change of a curve between checkpoints in their order, averaged over three."""
    clean = without_outliers(values[None])[0] if len(values) > 1 else values
    before, after = _largest(smoothed(clean))
    spread, raw = float(noise(clean)), np.subtract(*_largest(values))
    if after == before or abs(after - before) < criteria.smallest:
        spike = abs(raw) >= max(criteria.smallest, criteria.peak * spread) and not np.array_equal(clean, values)
        return Move(before, after, spread, OnsetVerdict.SPIKE if spike else OnsetVerdict.SMALL)
    return Move(
        before,
        after,
        spread,
        OnsetVerdict.NOISE if abs(after - before) < criteria.peak * spread else OnsetVerdict.STEADY,
    )


def _largest(values: np.ndarray) -> tuple[float, float]:
    """Return the levels between which values rise or fall most."""
    rises, falls = values - np.minimum.accumulate(values), np.maximum.accumulate(values) - values
    if rises.max() >= falls.max():
        end = int(rises.argmax())
        return float(values[: end + 1].min()), float(values[end])
    end = int(falls.argmax())
    return float(values[: end + 1].max()), float(values[end])
