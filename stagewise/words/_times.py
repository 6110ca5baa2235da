"""When something was, in words and on axes: in optimiser steps, or in the tokens that the model had seen by then.

Findings and figures are in steps. Where a `TokenAxis` is in force, what is written of a step is its tokens.
"""

import contextlib
import dataclasses
import math
import re
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any

import numpy as np
import pandas as pd

Time = int | float | np.integer[Any]
"""A step, or a number of tokens."""

UNITS = ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "k"))
"""Sizes of numbers of tokens, with their letters."""


@dataclasses.dataclass(frozen=True, eq=False)
class TokenAxis:
    """How many tokens a model had seen at each step: straight lines between points, from none at step 0."""

    steps: np.ndarray
    tokens: np.ndarray

    def tokens_at(self, step: Time) -> float:
        """Return the tokens seen at a step; beyond the last point, as many a step as up to it."""
        return _along(step, self.steps, self.tokens)

    def step_at(self, tokens: Time) -> float:
        """Return the step at which so many tokens had been seen."""
        return _along(tokens, self.tokens, self.steps)


def _along(place: Time, places: np.ndarray, values: np.ndarray) -> float:
    """Return the value at a place on straight lines from (0, 0) on; of a negative place, which is a delay, its own."""
    size = abs(float(place))
    value = float(np.interp(size, places, values)) * max(size / places[-1], 1.0)
    return math.copysign(value, place)


COUNTED = TokenAxis(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
"""The axis of findings whose times are counted in tokens already."""


def token_axis(table: pd.DataFrame, tokens_per_step: int | None = None) -> TokenAxis:
    """Return the tokens at the steps of a run: so many a step, or those of its table."""
    steps = np.append(0, np.sort(table.loc[table["step"] > 0, "step"].unique()))
    if tokens_per_step is not None:
        return TokenAxis(steps, steps * tokens_per_step)
    known = table.loc[table["tokens"].notna() & (table["step"] > 0)] if "tokens" in table else table.iloc[:0]
    points = known.drop_duplicates("step").sort_values("step")
    if points.empty:
        raise ValueError(
            f"how many tokens {table['run'].iloc[0]} had seen is not known: neither the names of its checkpoints nor "
            "the table of suites say it. --tokens-per-step N (in Python `tokens_per_step`), where it is measured, does"
        )
    numbers = points["tokens"].to_numpy(float)
    if (np.diff(numbers, prepend=0) <= 0).any():
        raise ValueError(f"the tokens that {table['run'].iloc[0]} had seen do not grow with its steps")
    return TokenAxis(np.append(0, points["step"].to_numpy(float)), np.append(0, numbers))


_AXIS: ContextVar[TokenAxis | None] = ContextVar("axis", default=None)


@contextlib.contextmanager
def written_on(axis: TokenAxis | None) -> Iterator[None]:
    """Write times on this axis until the end of the block; None writes steps."""
    token = _AXIS.set(axis)
    try:
        yield
    finally:
        _AXIS.reset(token)


def in_tokens(table: pd.DataFrame, tokens_per_step: int | None = None) -> contextlib.AbstractContextManager[None]:
    """Write and draw what was found in a run with the tokens that it had seen in place of steps.

    Args:
        table: of the run, as `measure` returns it.
        tokens_per_step: where the table does not say how many tokens the model had seen.

    Raises:
        ValueError: that is not known.

    >>> with stagewise.in_tokens(table):  # doctest: +SKIP
    ...     print(stages)
    ...     stagewise.plot.loss_curve(table, stages)
    """
    return written_on(token_axis(table, tokens_per_step))


def counted_in(axis: str) -> contextlib.AbstractContextManager[None]:
    """Write the times of findings that are counted in "steps" or in "tokens": the former as an axis in force has it."""
    return written_on(COUNTED) if axis == "tokens" else contextlib.nullcontext()


def in_counts(frame: pd.DataFrame, names: Iterable[str], axis: TokenAxis) -> pd.DataFrame:
    """Return a frame with tokens in place of steps in the columns of these names; what is missing stays so."""

    def counted(column: pd.Series) -> pd.Series:
        tokens = {step: axis.tokens_at(float(step)) for step in column.dropna().unique() if math.isfinite(step)}
        counts = column.map(lambda step: tokens.get(step, step))
        return (counts if column.dtype == "float64" else counts.round()).astype(column.dtype)

    return frame.assign(**{name: counted(frame[name]) for name in names if name in frame})


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
