"""Rules on a path: what is changed or copied is found there; a path that was not touched has nothing."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from stagewise.checkpoints._path_rules import (
    Deviation,
    breaks,
    detour_ratios,
    detours,
    end_growth,
    ends,
    same_checkpoints,
    stale,
    zeroed,
)
from stagewise.checkpoints._sketches import paths_of
from tests.checkpoints.walks import KINDS, Series, common_of, series, sketches_of

every_kind = pytest.mark.parametrize("kind", KINDS)


def rows(checkpoints: Series) -> set[tuple[int | str, ...]]:
    """All that is found, as (checkpoint, weight)."""
    common, paths = common_of(checkpoints)
    found = [one for path in paths for one in (*detours(path), *ends(path, end_growth(paths)))]
    found += breaks(common, paths, range(len(checkpoints)))
    return {(one.checkpoint, *(one.weights or [""])) for one in found}


@pytest.mark.one_of(5)
@pytest.mark.each_value
@every_kind
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("shape", [(30, 40), (12,)])
def test_nothing_is_found_on_a_path_that_was_not_touched(kind: str, seed: int, shape: tuple[int, ...]) -> None:
    assert rows(series(kind, n=40, shape=shape, seed=seed)) == set()


@pytest.mark.each_value
@every_kind
@pytest.mark.parametrize("at", [1, 5, 11])
@pytest.mark.parametrize(
    "change",
    [lambda w: 2 * w, lambda w: -w, lambda w: w.flip(0), lambda w: w + 0.2 * torch.randn(w.shape) / w.numel() ** 0.5],
)
def test_a_changed_weight_is_found_where_it_was_changed(kind: str, at: int, change: Callable[[Tensor], Tensor]) -> None:
    checkpoints = series(kind)
    checkpoints[at]["w1"] = change(checkpoints[at]["w1"])
    assert rows(checkpoints) == {(at, "w1")}


@every_kind
@pytest.mark.parametrize("at", [0, 11])
def test_an_end_of_another_seed_is_found(kind: str, at: int) -> None:
    checkpoints = series(kind)
    checkpoints[at] = series(kind, seed=1)[at]
    assert {row for row, _ in rows(checkpoints)} == {at}


def test_the_way_over_a_checkpoint_is_in_units_of_the_way_between_its_neighbours() -> None:
    points = [[0.0, 0.0], [1.0, 0.0], [2.0, 3.0], [3.0, 0.0], [3.0, 0.0]]
    (path,) = paths_of(sketches_of([{"w": torch.tensor(point)} for point in points]))
    # a point aside at (2, 3); the last point but one is where the last one is: no further than rounding
    assert detour_ratios(path) == pytest.approx([(1 + 10**0.5) / 13**0.5, 10**0.5, 1.0])
    assert len(detour_ratios(path.at(path.rows[:2]))) == 0


def test_a_deviation_says_how_far() -> None:
    checkpoints = series("drift")
    checkpoints[5]["w0"] = 3 * checkpoints[5]["w0"]
    (found,) = detours(paths_of(sketches_of(checkpoints))[0])
    assert found.times == pytest.approx(2 * 2 / 0.02, rel=0.3)


@pytest.mark.parametrize("at", [1, 5, 11])
def test_a_weight_that_is_zero_at_one_checkpoint_is_found(at: int) -> None:
    checkpoints = series("walk")
    for one in checkpoints:
        one["w0"] *= 1 + torch.rand(()) / 2  # too much for the way to tell
    checkpoints[at]["w0"].zero_()
    (found,) = zeroed(paths_of(sketches_of(checkpoints))[0])
    assert found.checkpoint == at


def test_pruning_that_stays_and_zeros_at_the_start_are_no_fault() -> None:
    checkpoints = series("walk")
    checkpoints[0]["w0"].zero_()
    for one in checkpoints[6:]:
        one["w1"].zero_()
    assert not [one for path in common_of(checkpoints)[1] for one in zeroed(path)]


def test_a_small_change_within_the_rounding_of_a_coarse_type_is_none() -> None:
    checkpoints = [{"w": torch.ones(40, 40, dtype=torch.bfloat16)} for _ in range(12)]
    checkpoints[5]["w"][:20] += 2**-7
    assert not [*detours(paths_of(sketches_of(checkpoints))[0])]


def test_a_small_start_that_grows_is_no_foreign_end() -> None:
    checkpoints = series("drift")
    checkpoints[0] = {name: 0.01 * torch.randn(weight.shape) for name, weight in checkpoints[0].items()}
    common, paths = common_of(checkpoints)
    assert not [*breaks(common, paths, range(12))]


@pytest.mark.parametrize("kind", KINDS)
def test_a_path_that_was_not_touched_does_not_jump(kind: str) -> None:
    common, paths = common_of(series(kind, n=30))
    assert not [*breaks(common, paths, range(30))]


@pytest.mark.parametrize("at", [2, 5, 9])
def test_the_checkpoint_from_which_another_run_goes_on_is_found(at: int) -> None:
    checkpoints = series("walk")[:at] + series("walk", seed=1)[at:]
    common, paths = common_of(checkpoints)
    (jump,) = breaks(common, paths, range(12))
    assert (jump.other, jump.checkpoint) == (at - 1, at)
    assert jump.times is not None
    assert jump.times > 50


@pytest.mark.parametrize("factor", [10.0, 0.1])
def test_a_learning_rate_that_jumps_is_no_break(factor: float) -> None:
    rates = torch.tensor([1.0] * 8 + [factor] * 8)
    steps = 0.01 * rates[:, None, None] * torch.randn(16, 30, 40, generator=torch.Generator().manual_seed(0))
    start = torch.randn(30, 40, generator=torch.Generator().manual_seed(1))
    common, paths = common_of([{"w": start + moved} for moved in steps.cumsum(0)])
    assert not [*breaks(common, paths, range(16))]


def stale_in(checkpoints: Series) -> list[Deviation]:
    return stale(sketches_of(checkpoints), common_of(checkpoints)[1], range(0, 10 * len(checkpoints), 10))


@pytest.mark.one_of(3)
@pytest.mark.parametrize("kind", KINDS)
def test_there_are_no_copies_on_a_path_that_was_not_touched(kind: str) -> None:
    checkpoints = series(kind, n=30)
    assert not same_checkpoints(sketches_of(checkpoints), common_of(checkpoints)[1])
    assert not stale_in(checkpoints)


def test_equal_checkpoints_are_one_group() -> None:
    checkpoints = series("walk")
    checkpoints[7] = checkpoints[9] = checkpoints[2]
    assert same_checkpoints(sketches_of(checkpoints), common_of(checkpoints)[1]) == [(2, 7, 9)]


@pytest.mark.parametrize(("scale", "found"), [(1.0, 1), (1e-8, 0)])
def test_a_weight_that_rounding_alone_moves_may_come_back(scale: float, found: int) -> None:
    checkpoints = series("walk")
    small = [scale * checkpoint["w0"] for checkpoint in checkpoints]
    small[7] = small[4]
    assert len(stale_in([{**one, "b_K": small[i]} for i, one in enumerate(checkpoints)])) == found


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
    assert stale(sketches_of(checkpoints), common_of(checkpoints)[1], range(12)) == []
