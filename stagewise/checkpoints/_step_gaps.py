"""Which steps are missing from a series, judged by the spacing of its neighbours."""

import itertools
import math
from collections.abc import Sequence
from itertools import pairwise

EDGE = 3
"""At the ends, where only one side corroborates a gap, so many strides must be equal, and no larger gap counts."""

MORE = 2
"""Gaps beyond these that are looked at, some of which may be of skipped steps themselves."""

SAME = 1e-9

SHARP = 0.25
"""Part of a stride that rounding to whole steps may explain; where it may explain more, no gap is reported."""


def missing_steps(steps: Sequence[int]) -> list[int]:
    """Return the steps that an even or a geometric spacing skips."""
    positive = [step for step in steps if step > 0]
    logs, rounding = [math.log(step) for step in positive], [0.5 / step for step in positive]
    even = _skipped([float(step) for step in steps], [0.0] * len(steps), neighbours=2)
    geometric = _skipped(logs, [0.0] * len(logs), neighbours=1) + _skipped(logs, rounding, neighbours=2)
    skipped = {round(value) for value in even} | {round(math.exp(value)) for value in geometric}
    return sorted(skipped - set(steps))


def _skipped(places: Sequence[float], errors: Sequence[float], neighbours: int) -> list[float]:
    """Return the places that are skipped, where each place is known up to its error."""
    gaps = [after - before for before, after in pairwise(places)]
    blurs = [one + other for one, other in pairwise(errors)]
    skipped: list[float] = []
    for i, gap in enumerate(gaps):
        at_edge = i in (0, len(gaps) - 1)
        beside = _corroborating(gaps, i, neighbours)
        if not beside or min(gaps[k] for k in beside) <= 0 or (at_edge and blurs[i] > 0):
            continue
        sharpest = min(beside, key=lambda k: blurs[k] / gaps[k])
        stride, error = gaps[sharpest], blurs[sharpest] + SAME * gaps[sharpest]
        times = round(gap / stride)
        equal = all(abs(gaps[k] - stride) <= blurs[k] + error for k in beside)
        blur = max(blurs[i] + times * error, *(blurs[k] + error for k in beside)) / stride
        whole = abs(gap - times * stride) <= blurs[i] + times * error
        if equal and whole and blur < SHARP and times >= 2 and not _is_schedule(gaps, i, stride, times):
            skipped += [places[i] + k * gap / times for k in range(1, times)]
    return skipped


def _is_schedule(gaps: Sequence[float], i: int, stride: float, times: int) -> bool:
    """Whether a gap of so many strides is how a schedule saves: at an end, by rounding, or between clumps of steps."""
    if times > EDGE:
        # No more steps are missed than there are equal strides in a row on both sides.
        sides = reversed(gaps[:i]), gaps[i + 1 :]
        about = [itertools.takewhile(lambda gap: abs(gap - stride) <= SHARP * stride, side) for side in sides]
        alike = [other for other in gaps if abs(other - gaps[i]) <= SAME * gaps[i]]
        return i in (0, len(gaps) - 1) or times - 1 > len([*itertools.chain(*about)]) or len(alike) > 1
    return stride == 1 and times == 2 and any(other > 1 for k, other in enumerate(gaps) if k != i)


def _corroborating(gaps: Sequence[float], i: int, each: int) -> list[int]:
    """Return which gaps corroborate the i-th: so many on each side, three at an end, five beside skipped ones."""
    n = len(gaps)
    if i in (0, n - 1):
        return [k for k in range(n) if 0 < abs(k - i) <= EDGE] if n > EDGE else []
    sides = range(i - 1, -1, -1)[: EDGE + MORE], range(i + 1, n)[: EDGE + MORE]
    stride = min(gaps[k] for side in sides for k in side)
    times = {k: gaps[k] / stride for side in sides for k in side} if stride > 0 else {}
    equal = [[k for k in side if times.get(k, 0.0) - 1 <= SAME] for side in sides]
    whole = all(abs(ratio - round(ratio)) <= SAME * ratio for ratio in times.values())
    if whole and min(map(len, equal)) >= 2 and sum(map(len, equal)) >= EDGE + MORE:
        return [k for side in equal for k in side[:each]]
    return [k for side in sides for k in side[:each]]
