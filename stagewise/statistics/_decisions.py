"""Whether a transition counts as an onset, and what a curve did that has none."""

from typing import NamedTuple

import numpy as np

from stagewise.statistics._criteria import StageCriteria
from stagewise.statistics._noise.differences import noise, smoothed
from stagewise.statistics._noise.residual import without_outliers
from stagewise.statistics._transition import Transition
from stagewise.statistics._verdicts import OnsetVerdict


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
