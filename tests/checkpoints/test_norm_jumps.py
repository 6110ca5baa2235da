"""Norms that jump away from both neighbours: planted ones are found, growth is none."""

import math

import pytest

from stagewise.checkpoints.norm_jumps import FACTOR, norm_jumps


def of(*sizes: float) -> list[dict[str, float]]:
    return [{"w": size} for size in sizes]


def test_a_weight_that_vanishes_is_a_jump_and_one_that_was_never_there_is_none() -> None:
    assert norm_jumps([{"w": size} for size in (1.0, 1.1, 0.0, 1.2, 1.3, 1.3)]) == {2: ["w"]}
    assert norm_jumps([{"w": size} for size in (0.0, 0.0, 0.0, 0.1, 0.2, 0.3)]) == {}


def test_growth_is_no_jump() -> None:
    assert norm_jumps([{"w": size} for size in (0.0, 0.01, 0.1, 1.0, 3.0, 3.1, 3.2, 3.2)]) == {}
    assert norm_jumps([{"w": size} for size in (1.0, 1.0, 1.01, 1.02, 9.0)]) == {4: ["w"]}


@pytest.mark.parametrize("place", [1, 2, 3, 4])
@pytest.mark.parametrize("times", [0.1, 10.0])
def test_a_jump_is_found_wherever_it_is_but_at_the_first_checkpoint(place: int, times: float) -> None:
    sizes = [1.0, 1.1, 1.2, 1.3, 1.4]
    sizes[place] *= times
    assert norm_jumps(of(*sizes)) == {place: ["w"]}
    assert norm_jumps(of(*[10.0, 1.1, 1.2, 1.3, 1.4])) == {}


@pytest.mark.parametrize(("times", "jumps"), [(0.98 * FACTOR, {}), (1.02 * FACTOR, {2: ["w"]})])
def test_a_norm_jumps_when_it_is_more_than_twice_both_neighbours(times: float, jumps: dict[int, list[str]]) -> None:
    assert norm_jumps(of(1.0, 1.0, times, 1.0, 1.0)) == jumps


def test_a_weight_that_changes_as_much_at_every_checkpoint_does_not_jump() -> None:
    assert norm_jumps(of(1.0, 3.0, 1.0, 3.0, 1.0, 3.0, 1.0)) == {}


def test_a_weight_that_is_missing_or_not_finite_is_not_judged() -> None:
    others = [{"v": 1.0 + step / 10} for step in range(5)]
    sizes = (1.0, math.nan, math.inf, 1.0, 1.0)
    assert norm_jumps([{**other, "w": size} for other, size in zip(others, sizes, strict=True)]) == {}
    assert norm_jumps([{**other, **({"w": 1.0} if step != 2 else {})} for step, other in enumerate(others)]) == {}


def test_three_checkpoints_say_nothing() -> None:
    assert norm_jumps(of(1.0, 50.0, 1.0)) == {}
