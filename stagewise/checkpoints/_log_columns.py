"""Columns of logged curves: numbers written as text, rates, and steps that a resumed run logged again."""

import itertools
import re
import warnings
from typing import Any

import numpy as np
import pandas as pd

PLAIN = r"[-+]?(\d{1,3}(,\d{3})+|\d+)?(\.\d*)?([eE][-+]?\d+)?"
WRITTEN = re.compile(rf"\s*(?:(?P<plain>{PLAIN})\s*(?P<percent>%?)|tensor\((?P<tensor>[^,()]+).*\))\s*")
"""Numbers as a log may hold them: with a comma between thousands, in percent, or as torch prints a tensor."""


def from_text(column: pd.Series) -> pd.Series:
    """Return a column of text as numbers where each of its entries is one, percents as shares; any other as it is."""
    if pd.api.types.is_numeric_dtype(column) or column.notna().sum() == 0:
        return column
    try:
        return column.map(_written, na_action="ignore").astype(float)
    except ValueError:
        return column


def _written(text: Any) -> float:
    match = WRITTEN.fullmatch(str(text))
    if match is None:
        raise ValueError(text)
    if match["tensor"]:
        return float(match["tensor"])
    return float(match["plain"].replace(",", "")) / (100 if match["percent"] else 1)


def as_numbers(column: pd.Series) -> pd.Series:
    """Return a column of numbers, scalar tensors or arrays, and None as one of floats; any other as it is."""
    if column.dtype != object or not all(hasattr(each, "__float__") and np.ndim(each) == 0 for each in column.dropna()):
        return column
    # A tensor that requires gradients warns where it is made a float.
    return column.map(lambda each: each.item() if hasattr(each, "item") else each).astype(float)


OF_RUN = " - "
"""Between the names of run and curve, in the columns that Weights & Biases exports."""

RATE, BETWEEN, WORDS = {"lr", "learning_rate", "learningrate"}, r"[._\s-]+", r"(?<=[a-z0-9])(?=[A-Z])"
"""Words for the learning rate in a name, in lower case, and what lies between words: a sign, or a capital letter."""

MEASURED = {"loss", "acc", "accuracy", "error", "perplexity", "ppl"}
"""Words of names that a rate may stand in, too: "loss_lr_0.1" is a loss."""


def is_rate(name: str) -> bool:
    """Whether a curve is a learning rate, which is done to a run, and no progress of its."""
    *folders, last = name.rpartition(OF_RUN)[2].split("/")
    parts = re.split(BETWEEN, re.sub(WORDS, " ", last))
    words = [part.lower().rstrip("0123456789") for part in parts]  # as in lr-AdamW/pg1
    within = any(RATE & {folder.lower(), folder.lower().partition("-")[0]} for folder in folders)
    named = RATE & set(words) or ("learning", "rate") in itertools.pairwise(words)
    return bool(within or named) and not MEASURED & set(words)


SELDOM = 0.1
"""Part of the values of a curve before which a log may go back to an earlier step, once at least, by resumed runs."""


def resumed(curve: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return a curve without what was logged before a run was resumed at an earlier step: from that step on."""
    steps = curve["step"].to_numpy()
    if not (curve["step"].duplicated().any() or _goes_back(steps)):
        return curve
    lowest_later = np.append(np.minimum.accumulate(steps[::-1])[::-1][1:], np.iinfo(np.int64).max)
    kept, back = steps < lowest_later, np.diff(steps) < 0
    if back.any():
        if not kept[0]:  # another run
            return curve
        again = f"{name} was logged again from step {steps[1:][back].min()} on, as by a resumed run"
    elif (~kept).sum() > max(1, SELDOM * len(steps)):  # two values of each step
        return curve
    else:
        again = f"{name} was logged again at step {steps[~kept][0]}, as by a resumed run"
    warnings.warn(f"{again}: {(~kept).sum()} earlier values are left out", stacklevel=3)
    return curve[kept]


def _goes_back(steps: np.ndarray) -> bool:
    """Whether steps go back among earlier ones, and seldom: what is in another order goes back often, parts beside."""
    back = np.flatnonzero(np.diff(steps) < 0) + 1
    if len(back) > max(1, SELDOM * len(steps)):
        return False
    parts = np.split(steps, back)
    earlier = (steps[:at] for at in back)
    return any(((one > part[0]) & (one < part[-1])).any() for one, part in zip(earlier, parts[1:], strict=True))
