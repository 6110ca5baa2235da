"""Changes of a run, given or in its logged learning rate, and which of them coincides with a change of a curve."""

import json
import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from stagewise.event import Causes
from stagewise.learning_rates import CHANGES, Cause, is_rate, numbered, of_log, of_setting
from stagewise.statistics import Transition
from stagewise.table import LOGGED, declared

EXAMPLE = 'as {"the learning-rate drop": 3000, "the warm-up": (0, 500)}'

AHEAD = 1
"""Gaps between checkpoints before the one that a transition's first tenth lies in, in which its cause may lie; and
twice as many after it: an abrupt onset with a tail has its t10 too early."""

NEAR = 0.02
"""Part of a step by which a logged change lies apart from what curves look like at most, if both are one."""


def known(causes: Causes) -> Causes:
    """Return causes as they are saved and compared: plain numbers, first and last step as a pair."""
    if not isinstance(causes, Mapping):
        raise ValueError(f"causes are names with a step each, {EXAMPLE}; got {causes!r}")
    return {name: _step(name, at) for name, at in causes.items()}


def causes_in(table: pd.DataFrame, given: Causes | None = None) -> Causes:
    """Return the given causes; else those in logged rates and settings, where groups that change alike count once."""
    if given is not None:
        return known(given)
    causes: list[tuple[str, Cause]] = []
    logged = declared(table).get(LOGGED, {})
    for name, rates in table[table["probe"] == LOGGED].groupby("quantity", observed=True):
        pairs = zip(rates["step"].tolist(), rates["value"].tolist(), strict=True)
        if is_rate(str(name)):
            causes += of_log({"step": step, "learning_rate": rate} for step, rate in pairs).items()
        elif str(name) in logged and logged[str(name)].progress is None:
            causes += of_setting(str(name), pairs).items()
    of_runs = json.loads(table.attrs.get(CHANGES, "{}"))
    for name, at in (change for run in table["run"].unique() for change in of_runs.get(run, {}).items()):
        near = (isinstance(step, int) and abs(at - step) <= NEAR * step for _, step in causes)
        causes += [] if any(near) else [(name, at)]
    named: dict[str, Cause] = {}
    for name, step in dict.fromkeys(causes):
        named[numbered(name.partition(" (")[0], named)] = step
    return named


def coincidence(one: Transition, causes: Causes, steps: np.ndarray) -> str:
    """Return the cause with its step that may have begun a transition, the last one before t10; else nothing.

    An effect is seen later than its cause: a gap before that of t10, or as long as from t10 to t50, is near enough. A
    change at half of the way did not begin it, nor did one long after t10: the intervals of both are the end, t50 where
    its own is open. In a cause that lasts some steps lies what was half-way then.
    """
    (early, begins, begun), (middle, lo, hi), _ = one.times
    u = np.log1p(steps)
    ahead = u[max(int(np.searchsorted(u, early, side="right")) - 1 - AHEAD, 0)]
    first, last = min(lo, begins, ahead, 2 * early - middle), hi if hi < u[-1] else middle
    last = min(last, u[min(int(np.searchsorted(u, begun)) + 2 * AHEAD, len(u) - 1)])
    at_a_step = cause_within(causes, np.expm1(first), np.expm1(last), np.expm1(early))
    return at_a_step or cause_during(causes, np.expm1(min(middle, u[-1])).round(6), steps.tolist())


def cause_within(causes: Causes, lo: int | float, hi: int | float, at: int | float) -> str:
    """Return the name of the last cause from `lo` up to `at`, else of the first one up to `hi`; else nothing."""
    steps = [(name, step) for name, step in causes.items() if not isinstance(step, Sequence) and lo <= step <= hi]
    near = [(step > at, abs(at - step), name) for name, step in steps]
    return min(near, default=(False, 0, ""))[-1]


def cause_during(causes: Causes, at: int | float, steps: Sequence[int | float]) -> str:
    """Return the name of the first cause that lasted some steps and in which something happened; else nothing."""
    for name, during in causes.items():
        if isinstance(during, Sequence):
            first, last = during
            if first <= at <= min((step for step in steps if step >= last), default=last):
                return name
    return ""


def _step(name: str, at: Any) -> int | float | tuple[int | float, int | float]:
    if isinstance(at, numbers.Real) and math.isfinite(at):
        return int(at) if isinstance(at, numbers.Integral) else float(at)
    if isinstance(at, list | tuple | np.ndarray) and len(at) == 2 and not isinstance(at[0], list | tuple | np.ndarray):
        first, last = (_step(name, end) for end in at)
        if not isinstance(first, tuple) and not isinstance(last, tuple) and first <= last:
            return first, last
    raise ValueError(f"the cause {name!r} takes a step, or its first and its last one, {EXAMPLE}; got {at!r}")
