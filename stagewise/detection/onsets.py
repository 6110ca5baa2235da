"""Onsets in a table of scores: which head began what, when, against the null that nothing ever speeds up."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import false_discovery_control

from stagewise.detection import words
from stagewise.detection.criteria import DEFAULT, StageCriteria
from stagewise.detection.frames import typed
from stagewise.detection.rises import Rise, rise, rise_times
from stagewise.detection.scores import Curve, followed
from stagewise.detection.verdicts import OnsetVerdict

AXES = ("relation", "layer", "head")
"""Axes that a frame of onsets has, whether or not a curve has labels on them; others come after these."""

TIMES = ("t10", "t50", "t90")
TYPES = {
    **{"verdict": "str", "onset": "bool", "transient": "bool"},
    **dict.fromkeys(("before", "after", "last"), "float64"),
    **{f"{name}{end}": "float64" for name in TIMES for end in ("", "_lo", "_hi")},
    **dict.fromkeys(("p_value", "p_adjusted", "noise", "share", "prominence"), "float64"),
    **{"lasting": "Int64", "checkpoints": "Int64", "not_finite_at": "Int64", "words": "str", "reason": "str"},
}
"""Columns that follow the probe, the quantity and the axes, with their types."""


def find_onsets(table: pd.DataFrame, criteria: StageCriteria = DEFAULT) -> pd.DataFrame:
    """Decide for every score of a table whether it has an onset, and when.

    Followed are the quantities for which the table declares up or down as progress: those of the library's probes,
    and one's own that declare it. An onset is the largest rise of a curve (or fall, of a loss) if it is at least 0.1
    and five times the noise, has half of its way within a threefold of steps, stands out of what the curve does
    otherwise, and if the curve speeds up: `acceleration` rejects every curve of diminishing returns at a false
    discovery rate of 5 % over all curves of the table (Benjamini and Hochberg). A curve has one onset at most.

    Args:
        table: of one run, from `measure`.
        criteria: the thresholds.

    Returns a row a curve, the first onset first: its `probe`, its `quantity` and its labels on every axis; the
    `verdict` (`OnsetVerdict`); whether it has an `onset`, and a `transient` one, half of which was lost again by the
    end; the levels `before`, `after` and at the `last` checkpoint; `t10`, `t50`, `t90`, steps at which 10, 50 and 90 %
    of the way were made, each with a 95 % interval between two checkpoints (`t50_lo`, `t50_hi`; infinite where no
    checkpoint shows the end of the rise); the `p_value`, and `p_adjusted` for the number of curves; the other numbers
    that decide, as in `rises.Rise`; the onset in `words`, or the `reason` against one. What a curve does not have is
    missing.

    Raises:
        ValueError: an axis of the table has the name of one of these columns.
    """
    curves = followed(table)
    largest = [_largest(curve, criteria) for curve in curves]
    adjusted = iter(_adjusted([one.p_value for one in largest if one is not None]))
    records = [
        _not_finite(curve) if one is None else _record(curve, one, float(next(adjusted)), criteria)
        for curve, one in zip(curves, largest, strict=True)
    ]
    onsets = typed(records, {"probe": "str", "quantity": "str", **_axis_types(curves), **TYPES})
    return onsets.sort_values("t50", kind="stable", ignore_index=True)


def _largest(curve: Curve, criteria: StageCriteria) -> Rise | None:
    """Return the largest rise of a curve, downwards where that is progress; None where a value is not finite."""
    values = curve.rows["value"].to_numpy(float)
    return rise(curve.steps, curve.sign * values, criteria) if np.isfinite(values).all() else None


def _adjusted(p_values: Sequence[float]) -> Iterable[float]:
    return false_discovery_control(p_values) if len(p_values) else ()


def _axis_types(curves: Iterable[Curve]) -> dict[str, str]:
    known = {"relation": "string", "layer": "Int64", "head": "Int64"}
    for curve in curves:
        for name in curve.labels:
            if name in TYPES:
                raise ValueError(f"{curve.probe} has an axis {name!r}, which is a column of the onsets: rename it")
            known.setdefault(name, str(curve.rows[name].convert_dtypes().dtype))
    return known


def _not_finite(curve: Curve) -> dict[str, Any]:
    finite = np.isfinite(curve.rows["value"].to_numpy(float))
    record = {**_identity(curve, OnsetVerdict.NOT_FINITE), "not_finite_at": int(curve.steps[~finite][0])}
    return {**record, "reason": words.no_onset(record)}


def _record(curve: Curve, largest: Rise, p_adjusted: float, criteria: StageCriteria) -> dict[str, Any]:
    verdict = _verdict(curve, largest, p_adjusted, criteria)
    lost = largest.top - largest.last >= criteria.back * (largest.top - largest.base)
    record = {
        **_identity(curve, verdict),
        "transient": verdict == OnsetVerdict.ONSET and lost,
        "before": curve.sign * largest.base,
        "after": curve.sign * largest.top,
        "last": curve.sign * largest.last,
        "p_value": largest.p_value,
        "p_adjusted": p_adjusted,
        **{name: getattr(largest, name) for name in ("noise", "share", "prominence", "lasting")},
    }
    if not record["onset"]:
        return {**record, "reason": words.no_onset(record, criteria)}
    for name, time in zip(TIMES, rise_times(curve.upwards, largest, criteria), strict=True):
        record |= {name: time.step, f"{name}_lo": time.lo, f"{name}_hi": time.hi}
    return {**record, "words": words.onset(record, curve.declared, criteria)}


def _identity(curve: Curve, verdict: OnsetVerdict) -> dict[str, Any]:
    return {
        **{"probe": curve.probe, "quantity": curve.quantity, **curve.labels},
        **{"verdict": str(verdict), "onset": verdict == OnsetVerdict.ONSET, "transient": False},
        **{"checkpoints": len(curve.rows), "words": "", "reason": ""},
    }


def _verdict(curve: Curve, largest: Rise, p_adjusted: float, criteria: StageCriteria) -> OnsetVerdict:
    if len(curve.rows) < criteria.fewest:
        return OnsetVerdict.FEW_CHECKPOINTS
    if against := largest.rejection(criteria):
        return against
    return OnsetVerdict.STEADY if p_adjusted >= criteria.false_discoveries else OnsetVerdict.ONSET
