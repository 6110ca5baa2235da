"""Curves of the model as a whole: their levels at each transition, and the change that would have been seen in them."""

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd

from stagewise.findings._frames import typed
from stagewise.findings._scores import Curve, of_whole_model
from stagewise.statistics._power import power

LEVELS = {
    **{"stage": "int64", "probe": "str", "quantity": "str"},
    **dict.fromkeys(("before", "after", "smallest"), "float64"),
}
"""Columns of the frame of levels, with their types."""


def levels_of(curves: Sequence[Curve], begins: Sequence[float], last: int) -> pd.DataFrame:
    """Return a row a stage and finite curve: its values `before` and `after`, and the `smallest` change that counts."""
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


POWER = {"probe": "str", "quantity": "str", "size": "float64", "found": "int64"}
"""Columns of the frame of changes that would have been seen, with their types."""

ASKED = 2
"""Curves of the whole model, at most, that changes are put into: a search each takes a second."""


def power_of(curves: Sequence[Curve]) -> pd.DataFrame:
    """Return `power` of two curves of the whole model, shares first; else of the head's score that moved most."""
    able = [each for each in of_whole_model(curves) or curves if each.can_be_judged and np.ptp(each.values) > 0]
    if any(each.labels for each in able):
        able = [max(able, key=lambda each: float(np.ptp(each.values)))]
    able.sort(key=lambda each: each.declared.range != (0, 1))
    return typed((_row(each) for each in able[:ASKED]), POWER)


def _row(curve: Curve) -> dict[str, object]:
    up, (lowest, highest) = curve.declared.progress == "up", curve.declared.range
    largest = np.inf if lowest is None or highest is None else float(highest - lowest)
    seen = power(curve.steps, curve.values, curve.criteria.smallest, curve.criteria, up=up, largest=largest)
    return {"probe": curve.probe, "quantity": curve.quantity, **seen._asdict()}
