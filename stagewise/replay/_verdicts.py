"""Verdicts: what a transition owes to a head or to data, from delays without it and those of controls."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

Verdict = Literal["needed", "speeds it up", "does not matter", "cannot tell"]

SMALL = 0.2
"""Part of a transition's own time below which a delay does not matter: with ten checkpoints before it, an interval
that holds no delay at all, which ends a checkpoint on either side, is half as wide."""

WAITED = 1.0
"""Parts of a transition's own time for which a run must go on without it before it counts as one that never comes:
another head that takes over has then had as long again as the first one took. One that takes longer is told by a curve
that has not stalled: see `_delays`."""


class Evidence(NamedTuple):
    """A delay over all orders of the batches, steps: the mean, an interval that holds each of them, and whether the
    transition came, and was on its way, in `never` a one.
    """

    value: float
    lo: float
    hi: float
    never: bool


def joined(rows: pd.DataFrame) -> Evidence:
    """Return the evidence in rows of `intervene`, a row an order of the batches."""
    never = bool((np.isinf(rows["value"]) & (rows["moving"] == 0)).all())
    return Evidence(float(rows["value"].mean()), float(rows["lo"].min()), float(rows["hi"].max()), never)


def verdict(delay: Evidence, controls: Sequence[Evidence], time: float) -> Verdict:
    """Return the verdict on what was taken away, beside the transition's own time; controls include another order
    alone.

    Needed: the transition never comes, nor is it on its way, and with all controls it comes before the delay's lower
    end. It speeds it up: the delay's interval lies above 0 and beyond those of all controls. It does not matter: the
    interval lies within SMALL of the transition's own time, on both sides of 0.
    """
    beyond = delay.lo >= max(0.0, *(control.hi for control in controls))  # intervals are half open
    if beyond and delay.never and delay.lo >= WAITED * time:
        return "needed"
    if beyond:
        return "speeds it up"
    if -SMALL * time <= delay.lo and delay.hi <= SMALL * time:
        return "does not matter"
    return "cannot tell"
