"""When something was, in words and on axes: in optimiser steps, or in the tokens that the model had seen by then.

Findings and figures are in steps. Where a `TokenAxis` is in force, what is written of a step is its tokens.
"""

import contextlib
import math
import re
from collections.abc import Iterator
from contextvars import ContextVar

import numpy as np

from stagewise.token_axis import Time, TokenAxis

UNITS = ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "k"))
"""Sizes of numbers of tokens, with their letters."""

COUNTED = TokenAxis(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
"""The axis of findings whose times are counted in tokens already."""

_AXIS: ContextVar[TokenAxis | None] = ContextVar("axis", default=None)


@contextlib.contextmanager
def written_on(axis: TokenAxis | None) -> Iterator[None]:
    """Write times on this axis until the end of the block; None writes steps."""
    token = _AXIS.set(axis)
    try:
        yield
    finally:
        _AXIS.reset(token)


def counted_in(axis: str) -> contextlib.AbstractContextManager[None]:
    """Write the times of findings that are counted in "steps" or in "tokens": the former as an axis in force has it."""
    return written_on(COUNTED) if axis == "tokens" else contextlib.nullcontext()


def axis_in_force() -> TokenAxis | None:
    """Return the axis that times are written on; None for steps."""
    return _AXIS.get()


def written(step: Time) -> str:
    """Write a step, or the tokens seen by then; "..." where it is not known.

    >>> written(165.2), written(math.inf)
    ('165', '...')
    """
    if not math.isfinite(step):
        return "..."
    axis = _AXIS.get()
    return f"{step:z.0f}" if axis is None else shortly(axis.tokens_at(step))


def shortly(tokens: Time) -> str:
    """Write a number of tokens in three digits.

    >>> shortly(2_097_152), shortly(999_900), shortly(299_892_736_000), shortly(12)
    ('2.1M', '1M', '300B', '12')
    """
    rounded = float(f"{tokens:.3g}")
    size, letter = next((unit for unit in UNITS if abs(rounded) >= unit[0]), (1, ""))
    return f"{rounded / size:z.3g}{letter}"


def interval(step: Time, lo: Time, hi: Time) -> str:
    """Write a step with its interval, where it has one.

    >>> interval(165, 135, 180), interval(0, 0, 0)
    ('165 [135, 180]', '0')
    """
    return written(step) if lo == hi == step else f"{written(step)} [{written(lo)}, {written(hi)}]"


def at(time: Time | str) -> str:
    """Name a time, given as a step or as it is written."""
    text = time if isinstance(time, str) else written(time)
    return f"step {text}" if _AXIS.get() is None else f"{text} tokens"


def span(first: Time | str, last: Time | str, between: str = " to ") -> str:
    """Name two times, as `at`."""
    text = between.join(time if isinstance(time, str) else written(time) for time in (first, last))
    return f"steps {text}" if _AXIS.get() is None else f"{text} tokens"


def unit() -> str:
    """Return the unit of times."""
    return "steps" if _AXIS.get() is None else "tokens"


def headed(text: str) -> str:
    """Return a heading over times as the axis has it: "from step" is "from tokens" on one of tokens."""
    return text if _AXIS.get() is None else re.sub(r"\bsteps?\b", "tokens", text)
