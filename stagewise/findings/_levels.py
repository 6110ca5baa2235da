"""The model's abilities before and after each transition: levels of the curves of the whole model."""

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd

from stagewise.findings._frames import typed
from stagewise.findings._scores import Curve

LEVELS = {
    **{"stage": "int64", "probe": "str", "quantity": "str"},
    **dict.fromkeys(("before", "after", "smallest"), "float64"),
}
"""Columns of the frame of levels, with their types."""


def levels_of(curves: Sequence[Curve], begins: Sequence[float], last: int) -> pd.DataFrame:
    """Return a row a stage and curve that has only finite values. `before` is its value at the checkpoint up to which
    the stage had not begun, `after` the one at which the next stage has not; `smallest` is the least change of it that
    counts.
    """
    ends = [*begins, last]
    records = []
    for curve in (each for each in curves if each.is_finite):
        at = [curve.raw[max(int(np.searchsorted(curve.steps, step, side="right")) - 1, 0)] for step in ends]
        of_curve = {"probe": curve.probe, "quantity": curve.quantity, "smallest": curve.criteria.smallest}
        records += [
            {**of_curve, "stage": stage, "before": before, "after": after}
            for stage, (before, after) in enumerate(itertools.pairwise(at), start=1)
        ]
    return typed(records, LEVELS)
