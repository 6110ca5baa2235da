"""A column of Python's objects that are numbers, as a loop of training collects them."""

from typing import Any

import numpy as np
import pandas as pd


def as_numbers(column: pd.Series) -> pd.Series:
    """Return a column of numbers, scalar tensors or arrays, and None as one of floats; any other as it is.

    >>> as_numbers(pd.Series([np.array(0.5), None, 1], dtype=object)).tolist()
    [0.5, nan, 1.0]
    >>> as_numbers(pd.Series([0.5, "a"], dtype=object)).tolist()
    [0.5, 'a']
    """
    if column.dtype != object or not column.map(_is_number).all():
        return column
    return column.map(_number).astype(float)


def _is_number(value: Any) -> bool:
    return value is None or (hasattr(value, "__float__") and np.ndim(value) == 0)


def _number(value: Any) -> float:
    # A tensor that requires gradients warns where it is made a float.
    return np.nan if value is None else float(value.item() if hasattr(value, "item") else value)
