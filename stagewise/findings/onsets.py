"""Onsets in a table of scores: which head began what, when, against the null that every curve is smooth, with noise."""

import concurrent.futures
import contextlib
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy

from stagewise.bars import bar
from stagewise.criteria import DEFAULT, OnsetVerdict, StageCriteria
from stagewise.event import Causes
from stagewise.findings._frames import TIMES, TYPES, typed
from stagewise.findings._known_causes import causes_in, coincidence
from stagewise.findings.scores import Curve, followed
from stagewise.statistics import CurveModel, Transition, find_transitions, moved
from stagewise.table import LOGGED, TEXT, check_table

SHARPER = 0.4
"""Part of a ramp of the learning rate, at most, that a transition takes which the ramp alone does not explain."""

PASSED, SKEW = 3, 1.4
"""Checkpoints after a cause up to which what is half-way may be its effect, whatever its shape; and how often as long
as its first half the second half of an effect takes: of a logistic as long, of an exponential 1.6 to 2.7 times.
"""

LASTING = 0.35
"""Part of its size by which the curve moves in a transition, at least: else something else undoes it."""

HALF = 0.5
"""Part of a fall that goes before it, from the first checkpoint to the second, where both are one: no level is between.
"""

AT_ONCE, LONG = 16, 2_000
"""Curves that are searched in one go, by whichever process; and values of all from which on a bar tells how far it is.
"""


def find_onsets(
    table: pd.DataFrame,
    criteria: StageCriteria = DEFAULT,
    causes: Causes | None = None,
    executor: concurrent.futures.Executor | None = None,
) -> pd.DataFrame:
    """Decide for every score of a table whether it has an onset, and when; a curve may have several.

    It follows the quantities for which the table declares up or down as progress: those of the library's probes, and
    yours that declare it. An onset is a transition, up or down, of at least 0.1 that neither noise nor anything gradual
    explains: `find_transitions` of `stagewise.statistics`. Of a curve without unit and bounds, as a logged one, a
    twentieth of its range from a tenth of the run on is enough. The errors of logged curves are those that the log
    gives. The false discovery rate (Benjamini and Hochberg) over all curves of the table whose values differ by as much
    is `criteria.false_discoveries`.

    Args:
        table: of one run, from `measure`.
        criteria: the thresholds.
        causes: steps at which the run was changed, or the first and last step of a change, as {"the warm-up": (0,
            500)}. A transition there names its cause. It is no onset if it is no faster than a ramp and no head changes
            by `criteria.growth`: the schedule alone explains it. None takes the changes of a logged learning rate in a
            table of `read_log`.
        executor: its processes search; None searches here. The onsets are the same.

    Returns a row for each transition in order of time, then what causes explain, and one for each curve without any.
    Columns name the curve: `probe`, `quantity`, labels on every axis. The `verdict` (`OnsetVerdict`) says whether it is
    an `onset`; a `transient` one lost half of its change by the end. Levels are those `before`, `after` and at the
    `last` checkpoint.
    `t10`, `t50`, `t90` are the steps at 10, 50 and 90 % of the way, each with a 95 % interval (`t50_lo`, `t50_hi`;
    infinite where the run may have ended before). `p_adjusted` is the `p_value` adjusted for the number of curves,
    `bayes` the log Bayes factor; a change `within_gap` happened between two checkpoints, nobody knows when. Further
    columns are the number of the `transition` in its
    curve, the `cause`, the `smallest` change that counts, the `last_step` of the curve, and `at_offset`, where all keys
    of a head's relation lie. Values that a curve lacks are missing.

    Raises:
        ValueError: no table of measurements, one with an axis named like one of these columns, or a curve with several
            values at a step.
    """
    check_table(table, "of a measured run folder: the onsets of `load_stages`")
    return onsets_of(followed(table, criteria), criteria, causes_in(table, causes), executor)


def onsets_of(
    curves: Sequence[Curve], criteria: StageCriteria, causes: Causes, executor: concurrent.futures.Executor | None
) -> pd.DataFrame:
    """Return the rows of `find_onsets` of the curves that are followed."""
    searched = _searched(curves, criteria, executor)
    p_values = [p for candidates in searched for _, p in candidates if p is not None]
    adjusted = iter(scipy.stats.false_discovery_control(p_values) if p_values else ())
    of_curve = [
        (curve, _decided(curve, [(one, p, None if p is None else float(next(adjusted))) for one, p in of], causes))
        for curve, of in zip(curves, searched, strict=True)
    ]
    # A head that changes by so much is explained by no schedule alone.
    of_heads = [each for curve, of in of_curve if "head" in curve.labels for each in of if each.against is None]
    told = {each.cause for each in of_heads if each.one is not None and abs(each.one.size) >= criteria.growth}
    records = [record for curve, of in of_curve for record in _records(curve, of, told, causes)]
    onsets = typed(records, {"probe": "str", "quantity": "str", **_axis_types(curves), **TYPES})
    return onsets.sort_values("t50", kind="stable", ignore_index=True)


def _searched(
    curves: Sequence[Curve], criteria: StageCriteria, executor: concurrent.futures.Executor | None
) -> list[list[tuple[Transition | None, float | None]]]:
    """Return each curve's transitions, or none, with their p-values; curves that share their steps are one search.

    A curve whose values differ by less than any onset has none. It is no test either: evidence does not go by size.
    """
    results: list[list[tuple[Transition | None, float | None]]] = [[(None, None)] for _ in curves]
    groups: dict[Any, list[int]] = {}
    for i, curve in enumerate(curves):
        if curve.can_be_judged and 0 < curve.criteria.smallest <= np.ptp(curve.values):
            groups.setdefault((curve.steps.tobytes(), curve.span, curve.errors is None), []).append(i)
    asked = [group[i : i + AT_ONCE] for group in groups.values() for i in range(0, len(group), AT_ONCE)]
    jobs = ([curves[i] for i in places] for places in asked)
    found = executor.map(models_of, jobs) if executor else map(models_of, jobs)
    long = sum(len(curves[i].steps) for places in asked for i in places) >= LONG
    with bar("transitions", sum(map(len, asked)), "curve") if long else contextlib.nullcontext() as shown:
        for places, models in zip(asked, found, strict=True):
            for i, model in zip(places, models, strict=True):
                results[i] = [(one, one.p_value) for one in model.transitions]
                results[i] = results[i] or [(None, 1.0)]
            if shown is not None:
                shown.update(len(places))
    return results


def models_of(curves: Sequence[Curve]) -> list[CurveModel]:
    """Return the models of curves that share their steps and what they can be, with given errors or all without."""
    values = np.stack([curve.values for curve in curves])
    errors = [curve.errors for curve in curves if curve.errors is not None]
    given = np.stack(errors) if errors else None
    draws = [curve.resamples for curve in curves]
    return find_transitions(curves[0].steps, values, given, span=curves[0].span, resamples=draws)


def rejection(one: Transition, p_adjusted: float | None, curve: Curve) -> OnsetVerdict | None:
    """Return why a transition is no onset; None where it is one."""
    change = (curve.learned(one.after) - curve.learned(one.before)) * np.sign(one.size)
    if change < max(curve.criteria.smallest, LASTING * abs(one.size)):
        return OnsetVerdict.SMALL
    falls, last = curve.declared.progress == "down" and one.size < 0, np.log1p(curve.steps[-1])
    if _is_early(one, curve, falls=falls):
        return OnsetVerdict.EARLY
    if (falls and one.times[2, 0] >= last) or (curve.lost and one.times[1, 2] >= last):  # it is not over, or diverges
        return OnsetVerdict.STEADY
    if one.prominence < curve.criteria.stands_out:
        return OnsetVerdict.COMMON
    uncertain = p_adjusted is None or p_adjusted >= curve.criteria.false_discoveries
    return OnsetVerdict.STEADY if uncertain else None


def _is_early(one: Transition, curve: Curve, *, falls: bool) -> bool:
    """Whether no stage lies before a transition: it is half-way in the first update of a run; a fall by the second
    checkpoint, or it is under way at the first, or may begin by the second where half as much falls up to there.
    """
    half, (first, second) = one.times[1, 0], np.log1p(curve.steps[:2])
    if not falls:
        return bool(half <= np.log1p(0 if curve.probe == LOGGED else curve.steps[0] + 1))
    fallen = curve.values[0] - curve.values[1]
    began = 0 < one.times[0, 0] <= first or (one.times[0, 1] <= second and fallen >= HALF * abs(one.size))
    return bool(half <= second or began)


def _axis_types(curves: Iterable[Curve]) -> dict[str, str]:
    known = {"relation": TEXT, "layer": "Int64", "head": "Int64"}
    for curve in curves:
        for name in curve.labels:
            if name in TYPES:
                raise ValueError(f"{curve.probe} has an axis {name!r}, which is a column of the onsets: rename it")
            type_here = curve.rows[name].convert_dtypes().dtype
            known.setdefault(name, str(type_here) if pd.api.types.is_numeric_dtype(type_here) else TEXT)
    return known


class _Decided(NamedTuple):
    """A transition of a curve, why it is no onset, its p-values, and what was done to the run then."""

    one: Transition | None
    against: OnsetVerdict | None
    p: float | None
    adjusted: float | None
    cause: str = ""


def _decided(curve: Curve, transitions: Iterable[tuple[Any, ...]], causes: Causes) -> list[_Decided]:
    """Decide on every transition of a curve; what was done to the run then is named, and no reason against one yet."""
    decided: list[_Decided] = []
    for one, p, adjusted in transitions:
        if one is None:
            decided.append(_Decided(None, OnsetVerdict.STEADY, p, adjusted))
            continue
        cause = coincidence(one, causes, curve.steps)
        before = decided[-1] if decided else None
        if not cause and before and before.one and _goes_on(one, before.one, curve.steps):
            cause = before.cause
        decided.append(_Decided(one, rejection(one, adjusted, curve), p, adjusted, cause))
    return decided


def _records(curve: Curve, decided: Sequence[_Decided], told: Collection[str], causes: Causes) -> list[dict[str, Any]]:
    """Return a record an onset, then one a cause of the largest change that it explains; where there is neither, one of
    the largest transition, or of what the curve did. What was done to the run explains a change, unless heads change by
    much then (`told`), or it is not like its effect.
    """
    decided = [
        each._replace(against=OnsetVerdict.COINCIDES)
        if each.against is None and each.cause and each.cause not in told and not _is_own(each, causes, curve.steps)
        else each
        for each in decided
    ]
    transitions = [each for each in decided if each.one is not None]
    by_size = sorted(transitions, key=lambda each: abs(each.one.size if each.one else 0.0))
    explained = {each.cause: each for each in by_size if each.against is OnsetVerdict.COINCIDES}
    told_of = [*(each for each in transitions if each.against is None), *explained.values()] or by_size[-1:]
    if told_of:
        return [_record(curve, number, each) for number, each in enumerate(told_of, start=1)]
    return [_still(curve, decided[0].p, decided[0].adjusted)]


def _is_own(each: _Decided, causes: Causes, steps: np.ndarray) -> bool:
    """Whether a transition is none that its cause would make: it takes less than a part of one that lasts some steps;
    or it is half-way some checkpoints after one at a step, and as slow at first as later: effects begin at once.
    """
    if each.one is None:
        return False
    at, (begins, half, ends) = causes[each.cause], each.one.times[:, 0]
    if isinstance(at, Sequence):
        return bool(np.expm1(ends) - np.expm1(begins) <= SHARPER * (at[1] - at[0]))
    passed = np.diff(np.searchsorted(np.log1p(steps), [np.log1p(at), half])).item()
    return bool(passed > PASSED and ends - half < SKEW * (half - begins))


def _goes_on(one: Transition, before: Transition, steps: np.ndarray) -> bool:
    """Whether a transition continues the one before it: in its direction, by the first checkpoint after its end."""
    u = np.log1p(steps)
    end = u[min(int(np.searchsorted(u, before.times[2, 0], side="right")), len(u) - 1)]
    return bool(one.size * before.size > 0 and one.times[0, 0] <= end)


def _record(curve: Curve, number: int, decided: _Decided) -> dict[str, Any]:
    one, against, p, adjusted, cause = decided
    assert one is not None
    values, criteria, last, within = curve.values, curve.criteria, np.log1p(curve.steps[-1]), curve.within
    lost = (one.after - values[-1]) * np.sign(one.size) >= criteria.back * abs(one.after - one.before)
    record = {
        **_identity(curve, against or OnsetVerdict.ONSET),
        "transient": against is None and bool(lost),
        **{"before": within(one.before), "after": within(one.after), "last": float(curve.raw[-1])},
        **{"bayes": one.bayes, "p_value": p, "p_adjusted": adjusted, "noise": one.noise},
        **{"within_gap": one.within_gap, "transition": number, "cause": cause, "smallest": criteria.smallest},
    }
    if against is not None:
        return record
    for name, (time, lo, hi) in zip(TIMES, one.times, strict=True):
        record |= {name: np.expm1(min(time, last)), f"{name}_lo": np.expm1(min(max(lo, 0.0), last))}
        record[f"{name}_hi"] = np.expm1(hi) if hi < last else float("inf")
    return record


def _still(curve: Curve, p: float | None, adjusted: float | None) -> dict[str, Any]:
    """Return the record of a curve without any transition."""
    values, criteria = curve.values, curve.criteria
    if not curve.is_finite:
        first = int(curve.steps[~np.isfinite(values)][0])
        return {**_identity(curve, OnsetVerdict.NOT_FINITE), "not_finite_at": first}
    move, few = moved(values), not curve.can_be_judged
    small = abs(move.after - move.before) < criteria.smallest
    against = OnsetVerdict.SMALL if small else OnsetVerdict.STEADY
    return {
        **_identity(curve, OnsetVerdict.FEW_CHECKPOINTS if few else against),
        **{"before": curve.within(move.before), "after": curve.within(move.after), "noise": move.noise},
        "last": float(curve.raw[-1]),
        **{"p_value": p, "p_adjusted": adjusted, "smallest": criteria.smallest},
    }


def _identity(curve: Curve, verdict: OnsetVerdict) -> dict[str, Any]:
    return {
        **{"probe": curve.probe, "quantity": curve.quantity, **curve.labels},
        **{"verdict": str(verdict), "onset": verdict == OnsetVerdict.ONSET, "transient": False, "transition": 1},
        **{"checkpoints": len(curve.rows), "cause": "", "last_step": int(curve.steps[-1]), "at_offset": curve.offset},
    }
