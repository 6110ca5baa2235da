"""How many tokens a model had seen at each step, and times counted in them."""

import dataclasses
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

Time = int | float | np.integer[Any]
"""A step, or a number of tokens."""


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


def in_counts(frame: pd.DataFrame, names: Iterable[str], axis: TokenAxis) -> pd.DataFrame:
    """Return a frame with tokens in place of steps in the columns of these names; what is missing stays so."""

    def counted(column: pd.Series) -> pd.Series:
        tokens = {step: axis.tokens_at(float(step)) for step in column.dropna().unique() if math.isfinite(step)}
        counts = column.map(lambda step: tokens.get(step, step))
        return (counts if column.dtype == "float64" else counts.round()).astype(column.dtype)

    return frame.assign(**{name: counted(frame[name]) for name in names if name in frame})
