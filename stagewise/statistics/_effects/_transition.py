"""Transitions of one curve: which of its changes can be told apart, and how they stand out from what is around them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stagewise.statistics import _constants as c
from stagewise.statistics._effects._settings import EffectSettings


class Transition(NamedTuple):
    """A change of level by `size`, from `before` to `after`: the levels of the fitted curve, what else happens then
    included.

    `times` are log(1 + step) of t10, t50 and t90, each with its 95 % interval: [part, (median, lo, hi)]. `bayes` is the
    log Bayes factor of the change against all that could explain the curve without it, `p_value` how often as large a
    one is found in calibrated nulls. Where it lies `within_gap`, it is abrupt at this spacing: its interval is the gap
    between checkpoints, in which nothing is known. `noise` is the deviation of the curve's noise, `prominence` the
    speed from t10 to t90 over that before and after, in value per step.
    """

    size: float
    before: float
    after: float
    times: np.ndarray
    bayes: float
    p_value: float
    within_gap: bool
    noise: float
    prominence: float = np.inf


def told_apart(transitions: list[Transition], u: np.ndarray, fitted: np.ndarray, s: EffectSettings) -> list[Transition]:
    """Return transitions in their order, as one those that cannot be told apart; none where they undo one another."""
    apart: list[list[Transition]] = []
    for one in transitions:
        if apart and (_alike(apart[-1][-1], one) or _goes_on(apart[-1][-1], one, u, fitted, s.like)):
            apart[-1].append(one)
        else:
            apart.append([one])
    # From checkpoints: within a gap between them a jump is half-way before it is made.
    since = [-np.inf, *(u[u >= group[-1].times[2, 0]].min(initial=u[-1]) for group in apart[:-1])]
    until = [*(u[u <= group[0].times[0, 0]].max(initial=u[0]) for group in apart[1:]), np.inf]
    joined = (_as_one(*each, u, fitted, s.undone) for each in zip(apart, since, until, strict=False))
    return [one for one in joined if one is not None]


def _alike(one: Transition, later: Transition) -> bool:
    """Whether each is half-way within the interval of the other."""
    (first, lo, hi), (second, later_lo, later_hi) = one.times[1], later.times[1]
    return bool(lo <= second <= hi and later_lo <= first <= later_hi)


def _goes_on(one: Transition, later: Transition, u: np.ndarray, fitted: np.ndarray, like: float) -> bool:
    """Whether the curve does not slow down between the middles of two changes of one direction and go on faster: a jump
    and the growth that slows down after it are one change, a slow one and a jump that lies in it are not.
    """
    if one.size * later.size < 0:
        return False
    first, last = (int(np.searchsorted(u, each.times[1, 0])) for each in (one, later))
    places = slice(max(first - 1, 0), last + 1)
    speeds = np.sign(one.size) * np.diff(fitted[places]) / np.diff(np.expm1(u[places]))
    if len(speeds) < 3:
        return True
    way, slowest = abs(fitted[places][-1] - fitted[places][0]) / np.ptp(np.expm1(u[places])), int(speeds.argmin())
    before = way if later.times[2, 0] <= one.times[2, 0] else speeds[:slowest].max(initial=0)
    return bool(speeds[slowest] >= like * min(before, speeds[slowest + 1 :].max(initial=0)))


def _as_one(
    group: list[Transition], since: float, until: float, u: np.ndarray, fitted: np.ndarray, undone: float
) -> Transition | None:
    """Return changes that cannot be told apart as one, half-way in its levels between the transitions next to it."""
    if len(group) == 1:
        return group[0]
    size, largest = sum(one.size for one in group), max(group, key=lambda one: abs(one.size))
    if abs(size) < undone * abs(largest.size):
        return None
    (begins, first, _), (_, second, ends) = (group[k].times[:, 0] for k in (0, -1))
    (early, late), lo, hi = (group[k].times[1, 0] for k in (0, -1)), group[0].times[1, 1], group[-1].times[1, 2]
    begins, ends = min(3 * begins - 2 * first, lo), max(3 * ends - 2 * second, hi)
    edges = max(begins, min(since, early)), min(ends, max(until, late))
    before, after = (float(level) for level in np.interp(edges, u, fitted))
    fine = np.linspace(min(lo, early), max(hi, late), 200)
    past = np.sign(size) * (np.interp(fine, u, fitted) - (before + after) / 2) >= 0
    half = float(fine[past.argmax()]) if past.any() else float(largest.times[1, 0])
    nearest = min(group, key=lambda one: abs(float(one.times[1, 0]) - half))
    known = nearest.times[1, 1:] if nearest.within_gap else half + nearest.times[1, 1:] - nearest.times[1, 0]
    middle = np.array([half, min(half, known[0]), max(half, known[1])])
    over = group[-1].times[2]
    if over[0] > min(u[-1], until):  # the level after it is that at the end of the run, or before the next
        made = (u > half) & (np.sign(size) * (fitted - before - c.PARTS[2] * (after - before)) >= 0)
        end = u[made.argmax()] if made.any() else u[-1]
        over = np.minimum(over, [end, end, np.inf])
    times = np.stack([group[0].times[0], middle, over])
    bayes, p_value = max(one.bayes for one in group), min(one.p_value for one in group)
    return nearest._replace(size=size, before=before, after=after, times=times, bayes=bayes, p_value=p_value)


def prominence(
    one: Transition, u: np.ndarray, fitted: np.ndarray, near: Sequence[float] = (0, np.inf), nearly: float = 1.0
) -> float:
    """Return the largest speed of the fitted curve in a transition over that before and after it, each for half as long
    as it takes, and at least from one checkpoint to the next. Where that is at least `nearly`, as between steps of a
    staircase, it is not taken from within the transitions next to it, but from where the one before is over to where
    the one after it begins, which `near` says.
    """
    t, end, begins, over = np.expm1(u), len(u) - 1, one.times[0, 1], one.times[2, 0]
    first, last = int(np.searchsorted(u, begins, side="right")) - 1, int(np.searchsorted(u, over))
    first, last = min(max(first, 0), end - 1), min(max(last, 1), end)
    inside, way = np.diff(fitted[first : last + 1]) / np.diff(t[first : last + 1]), (t[last] - t[first]) / 2
    before = min(int(np.searchsorted(t, t[first] - way, side="right")) - 1, first - 1)
    after = max(int(np.searchsorted(t, t[last] + way)), last + 1)
    sign, (since, until) = np.sign(one.size), (np.searchsorted(u, near) - [0, 1]).tolist()

    def over_that(before: int, after: int) -> float:
        ways = [(max(before, 0), first), (last, min(after, end))]
        around = max(0.0, *(sign * (fitted[k] - fitted[i]) / (t[k] - t[i]) if k > i else 0.0 for i, k in ways))
        return float((sign * inside).max() / around) if around > 0 else float("inf")

    whole = over_that(before, after)
    return over_that(max(before, since), min(after, until)) if whole >= nearly else whole
