"""Which onsets share a time, and which times follow one another so evenly that they are one period of change."""

import numpy as np
import pandas as pd

from stagewise.statistics._periods import members_of_periods

Times = list[pd.DataFrame]
"""The onsets of a period, those that share a time in one frame, the earliest first."""


def periods(onsets: pd.DataFrame, first: int, last: int, fewest: int) -> list[Times]:
    """Divide onsets into periods of change, the earliest first.

    Args:
        onsets: rows of `find_onsets` with an onset.
        first: the first step.
        last: the last step.
        fewest: the least number of times of a period that has several, `StageCriteria.consecutive`.
    """
    if onsets.empty:
        return []
    t50, lo, hi = (np.log1p(onsets[name].clip(upper=last).to_numpy(float)) for name in ("t50", "t50_lo", "t50_hi"))
    return [
        [onsets.iloc[each].sort_values("t50", kind="stable") for each in period]
        for period in members_of_periods(t50, lo, hi, first, last, fewest)
    ]
