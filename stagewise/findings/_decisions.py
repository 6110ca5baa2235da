"""Which cause may have begun a transition."""

import numpy as np

from stagewise.event import Causes
from stagewise.findings._known_causes import cause_during, cause_within
from stagewise.statistics import Transition

AHEAD = 1
"""Gaps between checkpoints before the one that a transition's first tenth lies in, in which its cause may lie."""


def coincidence(one: Transition, causes: Causes, steps: np.ndarray) -> str:
    """Return the cause with its step that may have begun a transition, the last one before t10; else nothing.

    An effect is seen later than its cause: a gap before that of t10, or as long as from t10 to t50, is near enough. A
    change at half of the way did not begin it: t50's interval is the end, t50 where that is open. In a cause that lasts
    some steps lies what was half-way then.
    """
    (early, begins, _), (middle, lo, hi), _ = one.times
    u = np.log1p(steps)
    ahead = u[max(int(np.searchsorted(u, early, side="right")) - 1 - AHEAD, 0)]
    first, last = min(lo, begins, ahead, 2 * early - middle), hi if hi < u[-1] else middle
    at_a_step = cause_within(causes, np.expm1(first), np.expm1(last), np.expm1(early))
    return at_a_step or cause_during(causes, np.expm1(middle), steps.tolist())
