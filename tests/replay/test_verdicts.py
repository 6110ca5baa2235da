"""Verdicts on planted delays: each of the four, and what either control, another order or a short run takes from it."""

import math

import pandas as pd
import pytest

from stagewise.replay.certifying import Evidence, Verdict, joined, verdict

NONE, TIME = Evidence(0.0, -5.0, 5.0, never=False), 100.0
NEVER = Evidence(math.inf, 150.0, math.inf, never=True)
LATER = Evidence(45.0, 30.0, 60.0, never=False)
ALL = {"matched": NONE, "kick": NONE, "order": NONE}


@pytest.mark.parametrize(
    ("delay", "said"),
    [
        (NEVER, "needed"),
        (LATER, "speeds it up"),
        (NONE, "does not matter"),
        (Evidence(10, -5, 25, never=False), "cannot tell"),
        (Evidence(-45, -60, -30, never=False), "cannot tell"),  # it slows it down
        (Evidence(math.inf, -5, math.inf, never=True), "cannot tell"),
        (Evidence(math.inf, 30, math.inf, never=False), "speeds it up"),  # in one order it came, in another it did not
    ],
)
def test_each_verdict_follows_from_the_interval(delay: Evidence, said: Verdict) -> None:
    assert verdict(delay, list(ALL.values()), TIME) == said


@pytest.mark.parametrize("control", ALL)
@pytest.mark.parametrize("delay", [NEVER, LATER], ids=["never", "later"])
def test_each_control_that_is_as_late_takes_the_verdict_away(control: str, delay: Evidence) -> None:
    assert verdict(delay, list({**ALL, control: delay}.values()), TIME) == "cannot tell"


def test_a_head_that_may_still_be_replaced_when_the_run_ends_is_not_called_needed() -> None:
    assert verdict(NEVER, list(ALL.values()), NEVER.lo) == "needed"
    assert verdict(NEVER, list(ALL.values()), NEVER.lo + 1) == "speeds it up"


def test_orders_are_joined_so_that_the_interval_holds_each_and_never_means_in_none() -> None:
    rows = pd.DataFrame({"value": [math.inf, 50.0], "lo": [40.0, 30.0], "hi": [math.inf, 60.0], "moving": 0})
    assert joined(rows) == (math.inf, 30, math.inf, False)
    assert joined(rows[:1]).never
    assert not joined(rows[:1].assign(moving=1)).never
