"""Copies: whole checkpoints and parts of them that stand under two steps; what is frozen or barely moves is none."""

import numpy as np
import pytest
import torch

from stagewise.checkpoints._copies import all_distances, exchanged, near_copies, same_checkpoints, stale
from stagewise.checkpoints._sketches import Deviation
from tests.checkpoints.walks import KINDS, Series, common_of, series, sketches_of


def stale_in(checkpoints: Series) -> list[Deviation]:
    common, paths = common_of(checkpoints)
    return stale(sketches_of(checkpoints), paths, common, range(0, 10 * len(checkpoints), 10))


@pytest.mark.one_of(3)
@pytest.mark.parametrize("kind", KINDS)
def test_there_are_none_on_a_path_that_was_not_touched(kind: str) -> None:
    checkpoints = series(kind, n=30)
    common, paths = common_of(checkpoints)
    assert same_checkpoints(sketches_of(checkpoints), paths) == []
    assert [*near_copies(common)] == stale_in(checkpoints) == []


def test_equal_checkpoints_are_one_group() -> None:
    checkpoints = series("walk")
    checkpoints[7] = checkpoints[9] = checkpoints[2]
    assert same_checkpoints(sketches_of(checkpoints), common_of(checkpoints)[1]) == [(2, 7, 9)]


@pytest.mark.parametrize(("at", "of"), [(6, 5), (6, 2), (11, 10)])
def test_a_copy_that_differs_by_rounding_is_found(at: int, of: int) -> None:
    checkpoints = series("walk")
    checkpoints[at] = {name: weight * (1 + 1e-7) for name, weight in checkpoints[of].items()}
    (found,) = near_copies(common_of(checkpoints)[0])
    assert (found.checkpoint, found.other) == (at, of)
    assert found.times is not None
    assert 0 < found.times < 1e-3


@pytest.mark.parametrize(("scale", "found"), [(1.0, 1), (1e-8, 0)])
def test_a_weight_that_rounding_alone_moves_may_come_back(scale: float, found: int) -> None:
    checkpoints = series("walk")
    small = [scale * checkpoint["w0"] for checkpoint in checkpoints]
    small[7] = small[4]
    assert len(stale_in([{**one, "b_K": small[i]} for i, one in enumerate(checkpoints)])) == found


def test_a_path_that_slows_down_to_nothing_has_no_copies() -> None:
    start, direction = torch.randn(2, 30, 40)
    checkpoints = [{"w": start + (1 - 0.5**step) * direction} for step in range(14)]
    assert not [*near_copies(common_of(checkpoints)[0])]


@pytest.mark.parametrize("kind", ["drift", "walk"])
@pytest.mark.parametrize(("at", "of"), [(6, 5), (6, 2), (6, 9), (11, 10), (11, 4)])
def test_a_layer_of_another_step_is_found_where_it_does_not_belong(kind: str, at: int, of: int) -> None:
    checkpoints = series(kind)
    for name in ("w0", "w2"):
        checkpoints[at][name] = checkpoints[of][name]
    assert stale_in(checkpoints) == [Deviation(at, ("w0", "w2"), other=of)]


@pytest.mark.parametrize("still", [range(0, 6), range(6, 12), range(3, 8)])
def test_a_weight_that_is_frozen_for_a_while_is_no_copy(still: range) -> None:
    checkpoints = series("walk")
    for step in still:
        checkpoints[step]["w0"] = checkpoints[still[0]]["w0"]
    assert stale_in(checkpoints) == []


def test_gains_that_are_one_at_several_steps_are_no_copies() -> None:
    checkpoints = series("walk")
    for step in (0, 1, 5, 6):
        checkpoints[step]["w0"] = torch.ones(30, 40)
    assert stale_in(checkpoints) == []


def test_a_coarse_type_may_hold_the_same_gain_twice() -> None:
    checkpoints = series("walk")
    for step, one in enumerate(checkpoints):
        one["gain"] = torch.ones(32, dtype=torch.bfloat16)
        one["gain"][step // 2] += 2**-7
    assert stale_in(checkpoints) == []


def test_the_first_update_may_change_nothing() -> None:
    checkpoints = series("walk")
    checkpoints[1]["w0"] = checkpoints[0]["w0"]
    common, paths = common_of(checkpoints)
    assert stale(sketches_of(checkpoints), paths, common, range(12)) == []


@pytest.mark.each_value
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_exchanged_on_a_path_that_was_not_touched(kind: str, seed: int) -> None:
    assert exchanged(common_of(series(kind, n=30, seed=seed))[0]) == []


@pytest.mark.parametrize("kind", ["drift", "walk"])
@pytest.mark.parametrize("pair", [(4, 5), (2, 4), (3, 9), (0, 1), (10, 11), (0, 11)])
def test_two_exchanged_checkpoints_are_found(kind: str, pair: tuple[int, int]) -> None:
    if kind == "drift" and pair == (0, 11):
        pytest.skip("on a line the ends may be exchanged by reading it backwards but for them")
    checkpoints = series(kind)
    first, second = pair
    checkpoints[first], checkpoints[second] = checkpoints[second], checkpoints[first]
    assert exchanged(common_of(checkpoints)[0]) == [pair]


def test_several_exchanges_are_found() -> None:
    checkpoints = series("walk", n=20)
    for first, second in ((3, 4), (10, 15)):
        checkpoints[first], checkpoints[second] = checkpoints[second], checkpoints[first]
    assert sorted(exchanged(common_of(checkpoints)[0])) == [(3, 4), (10, 15)]


def test_what_belongs_nowhere_is_not_exchanged_with_an_end() -> None:
    checkpoints = series("walk")
    checkpoints[5] = series("walk", seed=1)[5]
    assert exchanged(common_of(checkpoints)[0]) == []


def test_distances_of_long_paths_are_those_of_all_numbers() -> None:
    checkpoints = series("walk", weights=20)
    common, _ = common_of(checkpoints)
    assert common.numbers.shape[1] > 2048
    expected = np.linalg.norm(common.numbers[:, None].astype(float) - common.numbers[None], axis=-1)
    np.testing.assert_allclose(all_distances(common), expected, rtol=1e-4, atol=1e-6)
