"""Stages of a run with nested reference solutions: one ends where KL to a reference has its minimum."""

import concurrent.futures
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from stagewise.criteria import StageCriteria, TurnVerdict
from stagewise.event import Causes
from stagewise.findings._frames import TIMES, Columns, resamples_of, typed
from stagewise.findings._known_causes import cause_during, cause_within
from stagewise.findings._transitions import NEVER, RunTransition
from stagewise.findings._turning_points import Turn, from_first_peak, slowdown, turning_point
from stagewise.statistics import PARTS, Signals, crossing_step, signals
from stagewise.table import check_steps, families

POINTS: Columns = {
    **{"reference": "str", "step": "int64", "lo": "int64", "hi": "int64"},
    **dict.fromkeys(("start", "value", "fall", "rise", "p_value", "slowdown"), "float64"),
    **{"verdict": "str", "boundary": "bool", "ends_stage": "Int64", "cause": "str"},
}

RESTRICTED = "restricted c="
"""What the names of KL to models of restricted context begin with; at the first step it is zero."""

Curves = Mapping[str, pd.DataFrame]
"""Name -> rows in the order of the steps."""


def nested_references(rows: pd.DataFrame) -> tuple[str, ...]:
    """Return the nested references of rows of KL, the complete one last; none where there is one alone."""
    names = families(rows)["nested"]
    return tuple(names) if len(names) > 1 else ()


def turning_points(
    kl: Curves,
    restricted: pd.DataFrame,
    references: Sequence[str],
    criteria: StageCriteria,
    causes: Causes,
    executor: concurrent.futures.Executor | None = None,
) -> pd.DataFrame:
    """Return a row a curve, nested references first: where KL has its minimum, whether a stage ends there, and why.

    A minimum whose interval holds the step of a cause, or that lies in a cause that lasts some steps, names it, since
    that may have timed it.
    """
    if unknown := set(references) - set(kl):
        raise ValueError(f"the table has no KL to {sorted(unknown)}; it has {', '.join(kl)}")
    if (number := len({step for rows in kl.values() for step in rows["step"]})) < criteria.checkpoints:
        raise ValueError(f"stages need at least {criteria.checkpoints} checkpoints, the table has {number}")
    for name, rows in kl.items():
        check_steps(rows, f"KL to {name}")
    others = {name: rows for name, rows in kl.items() if name not in references}
    contexts = restricted.groupby("context", sort=False) if len(restricted) else ()
    others |= {f"{RESTRICTED}{context}": rows for context, rows in contexts}
    nested = {name: kl[name] for name in references}
    finite = {name: rows for name, rows in {**nested, **others}.items() if _not_finite_at(rows) is None}
    draw = functools.partial(_signals, criteria=criteria)
    each = executor.map(draw, finite.values()) if executor else map(draw, finite.values())
    drawn = dict(zip(finite, each, strict=True))
    records = _of_nested(nested, drawn, criteria, causes)
    boundaries = typed((record for record in records if record["boundary"]), POINTS)
    return typed([*records, *_of_others(others, drawn, boundaries, criteria)], POINTS)


def boundaries_of(complete: pd.DataFrame, points: pd.DataFrame, last: int) -> list[RunTransition]:
    """Return where each stage ends by its turning points, with the times of the fall of KL that follows."""
    rows = points[points["boundary"]].to_dict("records")
    ends = [*(row["step"] for row in rows[1:]), last][: len(rows)]
    return [
        RunTransition(
            int(row["step"]), int(row["lo"]), int(row["hi"]), left=row["reference"],
            begins=float(row["step"]), times=times_of_fall(complete, row["step"], end),
        )
        for row, end in zip(rows, ends, strict=True)
    ]  # fmt: skip


def times_of_fall(complete: pd.DataFrame, start: int, end: int) -> dict[str, float]:
    """Return when 10, 50 and 90 % of the fall of KL to the complete reference between two steps had happened."""
    part = complete[complete["step"].between(start, end)]
    steps, values = part["step"].to_numpy(float), part["value"].to_numpy(float)
    fallen = values[0] - np.minimum.accumulate(values)
    if not fallen[-1] > 0:  # not a number where KL is not finite
        return NEVER
    times = (crossing_step(steps, fallen, share * fallen[-1]) for share in PARTS)
    return {name: round(time, 1) for name, time in zip(TIMES, times, strict=True)}


def levels_of_kl(
    kl: Curves, complete: str, points: pd.DataFrame, rows: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return rows of the stage table with KL to the reference of each, first, at the end and where it is lowest. The
    first has the times of the fall of KL in it, unless a transition of other curves ends it.
    """
    (end,) = points[points["reference"] == complete].to_dict("records")
    first, *others = rows
    if not others or others[0]["left"]:
        rows = [first | times_of_fall(kl[complete], first["start"], first["end"]), *others]
    levels = []
    for row in rows:
        values = kl[row["reference"]].set_index("step")["value"]
        after = float(values[values.index <= row["end"]].iloc[-1])
        # The complete reference may be left again, beyond noise.
        lost = row["reference"] == complete and end["verdict"] == TurnVerdict.OVERFITS
        lowest = float(end["value"]) if lost else after
        levels.append({**row, "kl_first": float(values.iloc[0]), "kl_end": after, "kl_lowest": lowest})
    return levels


def rejection(lowest: Turn, criteria: StageCriteria) -> TurnVerdict | None:
    """Return why a minimum does not count as a turning point; None where it does."""
    if lowest.fall <= criteria.approach * lowest.start:
        return TurnVerdict.NOT_APPROACHED
    if lowest.rise < criteria.depth * lowest.fall:
        return TurnVerdict.NO_RISE
    return TurnVerdict.NOISE if lowest.p_value >= criteria.significance else None


def _of_nested(
    curves: Curves, drawn: Mapping[str, Signals], criteria: StageCriteria, causes: Causes
) -> list[dict[str, Any]]:
    *_, complete = curves
    broken = {name: _not_finite_at(curve, curves[complete]) for name, curve in curves.items()}
    unjudged = {name: _unjudged(name, curves[name], step) for name, step in broken.items() if step is not None}
    if complete in unjudged:
        return [*unjudged.values()]
    learning = drawn[complete]
    last = turning_point(learning)
    end = TurnVerdict.OVERFITS if rejection(last, criteria) is None else TurnVerdict.COMPLETE
    records: list[dict[str, Any]] = []
    previous: Turn | None = None
    stage = 0
    for name, curve in curves.items():
        if name in unjudged:
            records.append(unjudged[name])
            continue
        lowest = last if name == complete else turning_point(drawn[name])
        slow = slowdown(learning, lowest.lo, lowest.hi, criteria.window, criteria.peak, criteria.slowdown)
        verdict = end if name == complete else _verdict(lowest, slow, previous, criteria)
        if verdict.ends_stage and _further(learning, lowest.step) < criteria.further:
            verdict = TurnVerdict.PASSED if end == TurnVerdict.COMPLETE else end
        cause = cause_within(causes, lowest.lo, lowest.hi, lowest.step)
        cause = cause or cause_during(causes, lowest.step, curve["step"].tolist())
        if verdict.ends_stage:
            previous, stage = lowest, stage + 1
        record = _record(name, lowest, verdict, stage if verdict.ends_stage else None)
        records.append(record | {"slowdown": slow, "cause": cause})
    return records


def _further(learning: Signals, step: int) -> float:
    """Return how far KL to the complete reference falls after a step, as a part of its whole fall."""
    mean, here = learning.draws.mean(0), int((learning.steps >= step).argmax())
    fall = mean[0] - mean.min()
    return float((mean[here] - mean[here:].min()) / fall) if fall > 0 else 0.0


def _verdict(lowest: Turn, slow: float, previous: Turn | None, criteria: StageCriteria) -> TurnVerdict:
    """Decide on a partial solution: the model must have come close or paused, later than at the reference before."""
    if against := rejection(lowest, criteria):
        return against
    if not (slow <= criteria.slowdown or _is_close(lowest, slow, criteria)):
        return TurnVerdict.PASSED
    if previous is not None and not lowest.is_later_than(previous):
        return TurnVerdict.OUT_OF_ORDER
    return TurnVerdict.PLATEAU if slow <= criteria.slowdown else TurnVerdict.CLOSE


def _is_close(lowest: Turn, slow: float, criteria: StageCriteria) -> bool:
    """Whether the model came close to a reference: by how far it goes from it then, which is how far apart solutions
    are. Where noise hides whether it paused, four times as far is close, beside how far it was at first.
    """
    hidden = np.isnan(slow) and lowest.value <= criteria.close * lowest.start
    return bool(lowest.value <= (2 if hidden else 0.5) * criteria.close * (lowest.value + lowest.rise))


def _of_others(
    curves: Curves, drawn: Mapping[str, Signals], boundaries: pd.DataFrame, criteria: StageCriteria
) -> list[dict[str, Any]]:
    """Return the records of the other curves; one that has its minimum near a boundary corroborates it."""
    records = []
    for name, curve in curves.items():
        if (step := _not_finite_at(curve)) is not None:
            records.append(_unjudged(name, curve, step))
            continue
        lowest = turning_point(from_first_peak(drawn[name]) if name.startswith(RESTRICTED) else drawn[name])
        against = rejection(lowest, criteria)
        stage = None if against else _stage_ended_near(lowest, boundaries, criteria.nearby)
        near = TurnVerdict.ELSEWHERE if stage is None else TurnVerdict.CORROBORATES
        records.append(_record(name, lowest, against or near, stage))
    return records


def _signals(rows: pd.DataFrame, criteria: StageCriteria) -> Signals:
    """Return draws of a curve without its noise; one of fewer than four checkpoints, or that stays, is as it is."""
    steps, values = rows["step"].to_numpy(float), rows["value"].to_numpy(float)
    if len(steps) < 4 or np.ptp(values) == 0:
        return Signals(steps, values[None], steps)
    return signals(steps, values, resamples_of(rows), criteria.simulations)


def _not_finite_at(*curves: pd.DataFrame) -> int | None:
    """Return the first step at which one of the curves is not finite, None where all are."""
    steps = [int(step) for curve in curves for step in curve.loc[~np.isfinite(curve["value"]), "step"]]
    return min(steps, default=None)


def _unjudged(name: str, curve: pd.DataFrame, step: int) -> dict[str, Any]:
    unknown = dict.fromkeys(("value", "fall", "rise", "p_value"), float("nan"))
    lowest = Turn(step, step, step, start=float(curve["value"].iloc[0]), **unknown)
    return _record(name, lowest, TurnVerdict.NOT_FINITE, None)


def _record(name: str, lowest: Turn, verdict: TurnVerdict, stage: int | None) -> dict[str, Any]:
    decision = {"verdict": str(verdict), "boundary": verdict.ends_stage, "ends_stage": stage, "cause": ""}
    return {"reference": name, **lowest._asdict(), **decision}


def _stage_ended_near(lowest: Turn, boundaries: pd.DataFrame, ratio: float) -> int | None:
    gap = np.maximum(boundaries["lo"], lowest.lo) / np.minimum(boundaries["hi"], lowest.hi)
    near = boundaries[gap <= ratio]
    if near.empty:
        return None
    nearest = (near["step"] - lowest.step).abs().to_numpy().argmin()
    return int(near["ends_stage"].iloc[nearest])
