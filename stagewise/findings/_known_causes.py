"""Changes of a run, at a step or over some steps, and which of them coincides with a change of a curve."""

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stagewise.event import Causes

EXAMPLE = 'as {"the learning-rate drop": 3000, "the warm-up": (0, 500)}'


def known(causes: Causes) -> Causes:
    """Return causes as they are saved and compared: plain numbers, first and last step as a pair.

    Raises:
        ValueError: no mapping from names to a step, or to a first and a last one.

    >>> known({"the learning rate's warm-up": [0, 500], "a restart": 3000})
    {"the learning rate's warm-up": (0, 500), 'a restart': 3000}
    """
    if not isinstance(causes, Mapping):
        raise ValueError(f"causes are names with a step each, {EXAMPLE}; got {causes!r}")
    return {name: _step(name, at) for name, at in causes.items()}


def _step(name: str, at: Any) -> int | float | tuple[int | float, int | float]:
    if isinstance(at, numbers.Real) and math.isfinite(at):
        return int(at) if isinstance(at, numbers.Integral) else float(at)
    if isinstance(at, list | tuple | np.ndarray) and len(at) == 2 and not isinstance(at[0], list | tuple | np.ndarray):
        first, last = (_step(name, end) for end in at)
        if not isinstance(first, tuple) and not isinstance(last, tuple) and first <= last:
            return first, last
    raise ValueError(f"the cause {name!r} takes a step, or its first and its last one, {EXAMPLE}; got {at!r}")


def cause_within(causes: Causes, lo: int | float, hi: int | float, at: int | float) -> str:
    """Return the name of the cause with a step from `lo` to `hi`; else nothing.

    If there are several, the last one up to `at` is named, and the first after it.

    >>> cause_within({"a restart": 2910, "the learning rate's drop to 0.001": 3000}, 2900, 3100, at=3000)
    "the learning rate's drop to 0.001"
    """
    steps = [(name, step) for name, step in causes.items() if not isinstance(step, Sequence) and lo <= step <= hi]
    near = [(step > at, abs(at - step), name) for name, step in steps]
    return min(near, default=(False, 0, ""))[-1]


def cause_during(causes: Causes, at: int | float, steps: Sequence[int | float]) -> str:
    """Return the name of the first cause that lasted some steps and in which something happened; else nothing.

    Args:
        causes: of them, those with a first and a last step.
        at: when it happened.
        steps: of the checkpoints; what a cause does is seen by the first one from its end on.

    >>> cause_during({"the learning rate's warm-up": (0, 500)}, 520, [0, 400, 600])
    "the learning rate's warm-up"
    """
    for name, during in causes.items():
        if isinstance(during, Sequence):
            first, last = during
            if first <= at <= min((step for step in steps if step >= last), default=last):
                return name
    return ""
