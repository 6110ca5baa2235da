"""Functions of the step: their values, and which of them say nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from stagewise.value_schedules import Ramp, Shuffled, Steps


def test_a_ramp_is_even_between_its_ends_and_flat_beside_them() -> None:
    values = [Ramp(1, 3, start=10, stop=14).at(step) for step in range(8, 17)]
    assert values == [1, 1, 1, 1.5, 2, 2.5, 3, 3, 3]


def test_each_value_of_steps_begins_at_its_step_and_may_be_a_schedule() -> None:
    later = Steps(("adamw", Ramp(0, 4, start=0, stop=8), 9), (2, 6))
    assert [later.at(step) for step in range(8)] == ["adamw", "adamw", 1, 1.5, 2, 2.5, 9, 9]
    assert set(later.breakpoints()) == {0, 2, 6, 8}


def test_shuffled_steps_are_the_same_ones_in_another_order_by_their_seed_alone() -> None:
    orders = [[Shuffled(20, 80, seed).at(step) for step in range(100)] for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    assert orders[0][:20] + orders[0][80:] == [*range(20), *range(80, 100)]
    assert sorted(orders[0]) == sorted(orders[2]) == list(range(100))
    assert sum(map(int.__eq__, orders[0][20:80], range(20, 80))) < 10


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ramp(0, 1, start=5, stop=5), "its stop after its start, got start=5, stop=5"),
        (lambda: Steps((1, 2), (3, 5)), "one value more than steps to change at, .* got 2 values"),
        (lambda: Steps((1, 2, 3), (5, 3)), "these ascend"),
        (lambda: Shuffled(0, 2**40), "Shuffled.stop: expected a whole number from 0 to"),
    ],
)
def test_a_schedule_that_says_nothing_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
