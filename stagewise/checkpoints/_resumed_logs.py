"""Curves in the log of a run that was resumed at an earlier step: of what was logged again the later values count."""

import warnings

import numpy as np
import pandas as pd

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
