"""Periods of change by number: which events share a time, and which times are one period."""

import numpy as np

from stagewise.findings._periods import members_of_periods


def periods(steps: list[float], width: float, fewest: int = 6, curves: int = 0) -> list[list[list[int]]]:
    u = np.log1p(steps)
    curve = np.arange(len(u)) % (curves or len(u))
    return members_of_periods(u, u - width / 2, u + width / 2, curve, 0, 3000, fewest)


def test_events_that_overlap_share_a_time_whatever_their_order() -> None:
    assert periods([900, 100, 910, 104], 0.1) == [[[1, 3]], [[0, 2]]]


def test_many_even_times_are_one_period_unless_more_are_asked_for() -> None:
    steps = np.geomspace(240, 2400, 14).tolist()
    assert [len(times) for times in periods(steps, 0.05)] == [14]
    assert [len(times) for times in periods(steps, 0.05, fewest=15)] == [1] * 14


def test_the_steps_of_one_curve_are_no_period_however_even_they_are() -> None:
    steps = np.geomspace(240, 2400, 14).tolist()
    assert [len(times) for times in periods(steps, 0.05, curves=1)] == [1] * 14
    assert [len(times) for times in periods(steps, 0.05, curves=2)] == [14]
