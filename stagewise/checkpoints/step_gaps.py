"""Which steps are missing from a series, judged by the spacing of its neighbours."""

import math
from collections.abc import Sequence
from itertools import pairwise

EDGE = 3
"""At the ends, where one side alone bears witness, so many strides must be equal, and no larger gap counts."""

SAME = 1e-9

SHARP = 0.25
"""Part of a stride that rounding to whole steps may explain; where it may explain more, nothing is said."""


def missing_steps(steps: Sequence[int]) -> list[int]:
    """Return the steps that an even or a geometric spacing skips.

    A gap is judged by the strides on both of its sides: if they are equal, and the gap is a whole multiple of them,
    the steps between are missing. Where the spacing changes nothing is said. At either end of the series the three
    strides next to the gap bear witness. A geometric spacing that was rounded to whole steps has strides that are equal
    up to rounding: two on each side must be, and what is missing is known up to rounding too. It also
    skips a step here and there among the first ones: that is no fault unless all other steps are there.

    Args:
        steps: ascending, each once.

    >>> missing_steps([0, 100, 200, 400, 500, 600])
    [300]
    >>> missing_steps([0, 1, 2, 4, 8, 32, 64, 128])
    [16]
    >>> missing_steps([10, 18, 32, 56, 178, 316, 562, 1000])
    [100]
    >>> missing_steps([0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 2000, 3000])
    []
    """
    positive = [step for step in steps if step > 0]
    logs, rounding = [math.log(step) for step in positive], [0.5 / step for step in positive]
    even = _skipped([float(step) for step in steps], [0.0] * len(steps), witnesses=2)
    geometric = _skipped(logs, [0.0] * len(logs), witnesses=1) + _skipped(logs, rounding, witnesses=2)
    found = {round(value) for value in even} | {round(math.exp(value)) for value in geometric}
    return sorted(found - set(steps))


def _skipped(places: Sequence[float], errors: Sequence[float], witnesses: int) -> list[float]:
    """Return the places that are skipped, where each place is known up to its error."""
    gaps = [after - before for before, after in pairwise(places)]
    blurs = [one + other for one, other in pairwise(errors)]
    found: list[float] = []
    for i, gap in enumerate(gaps):
        at_edge = i in (0, len(gaps) - 1)
        beside = _witnesses(len(gaps), i, witnesses)
        if not beside or (at_edge and blurs[i] > 0):
            continue
        sharpest = min(beside, key=lambda k: blurs[k] / gaps[k])
        stride, own = gaps[sharpest], blurs[sharpest] + SAME * gaps[sharpest]
        times = round(gap / stride)
        equal = all(abs(gaps[k] - stride) <= blurs[k] + own for k in beside)
        blur = max(blurs[i] + times * own, *(blurs[k] + own for k in beside)) / stride
        whole = abs(gap - times * stride) <= blurs[i] + times * own
        rounded = stride == 1 and times == 2 and any(other > 1 for k, other in enumerate(gaps) if k != i)
        if equal and whole and blur < SHARP and times >= 2 and not (at_edge and times > EDGE) and not rounded:
            found += [places[i] + k * gap / times for k in range(1, times)]
    return found


def _witnesses(n: int, i: int, each: int) -> list[int]:
    """Return which gaps bear witness of the i-th of n: so many on each side, or three on the one side at an end.

    A side that has fewer gives all of them.
    """
    if i in (0, n - 1):
        return [k for k in range(n) if 0 < abs(k - i) <= EDGE] if n > EDGE else []
    return [k for k in range(max(i - each, 0), min(i + each + 1, n)) if k != i]
