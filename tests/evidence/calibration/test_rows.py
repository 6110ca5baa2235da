"""A row's share has Wilson's interval."""

import pytest
from scipy.stats import binomtest

from evidence.calibration.rows import share


@pytest.mark.parametrize(("hits", "of"), [(0, 10), (3, 10), (10, 10), (57, 100)])
def test_the_interval_is_wilsons(hits: int, of: int) -> None:
    row = share("named", [True] * hits + [False] * (of - hits), 0.9, "higher")
    wilson = binomtest(hits, of).proportion_ci(0.95, "wilson")
    assert (row.value, row.low, row.high) == pytest.approx((hits / of, wilson.low, wilson.high), abs=1e-4)


@pytest.mark.parametrize(
    ("goal", "better", "missed"), [(0.3, "higher", False), (0.3, "lower", False), (0.2, "lower", True)]
)
def test_a_row_says_whether_it_missed_its_goal(goal: float, better: str, missed: bool) -> None:
    row = share("named", [True] * 3 + [False] * 7, goal, better)  # type: ignore[arg-type]
    assert ("MISSED" in str(row)) is missed
