"""Schedules: half-open intervals, joined with |."""

import itertools

import pytest

from stagewise.schedules import linear, logarithmic


@pytest.mark.parametrize(("every", "stop", "start"), [(1, 5, 0), (3, 9, 0), (3, 10, 2), (7, 7, 0), (5, 3, 4)])
def test_linear_steps_are_those_that_divide(every: int, stop: int, start: int) -> None:
    expected = {step for step in range(stop) if step >= start and (step - start) % every == 0}
    assert linear(every, stop, start) == expected


def test_intervals_are_half_open() -> None:
    assert 10 not in linear(5, 10)
    assert 100 not in logarithmic(2, 100)


@pytest.mark.parametrize("per_decade", [1, 3, 10])
def test_logarithmic_steps_have_equal_ratios(per_decade: int) -> None:
    steps = sorted(step for step in logarithmic(per_decade, 10_001) if step >= 100)
    assert len(steps) == 2 * per_decade + 1
    for step, following in itertools.pairwise(steps):
        # Rounding to whole steps moves a ratio by at most one part in a hundred from step 100 on.
        assert following / step == pytest.approx(10 ** (1 / per_decade), rel=0.01)


def test_logarithmic_steps_are_distinct_whole_numbers_from_the_start() -> None:
    steps = logarithmic(20, 50, start=4)
    assert min(steps) == 4
    assert all(isinstance(step, int) and 4 <= step < 50 for step in steps)


def test_schedules_join() -> None:
    assert sorted(linear(4, 9) | logarithmic(1, 11) | {3}) == [0, 1, 3, 4, 8, 10]


def test_a_linear_schedule_without_distance_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one step between saves, got every=0"):
        linear(0, 10)


@pytest.mark.parametrize(("per_decade", "start"), [(0, 1), (3, 0)])
def test_a_logarithmic_schedule_without_density_or_from_zero_is_refused(per_decade: int, start: int) -> None:
    with pytest.raises(ValueError, match=f"per_decade >= 1 and start >= 1, got {per_decade} and {start}"):
        logarithmic(per_decade, 10, start)
