"""Outliers and jumps: a weight that is changed is found there; a path that was not touched has none."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from stagewise.checkpoints._outliers import (
    breaks,
    detour_ratios,
    detours,
    end_growth,
    ends,
    flipped,
    foreign_ends,
    rate_jumps,
    vanished,
)
from stagewise.checkpoints._sketches import paths_of
from tests.checkpoints.walks import KINDS, Series, common_of, series, sketches_of

every_kind = pytest.mark.parametrize("kind", KINDS)


def rows(checkpoints: Series) -> set[tuple[int | str, ...]]:
    """All that is found, as (checkpoint, weight)."""
    common, paths = common_of(checkpoints)
    found = [one for path in paths for find in (detours, vanished, flipped) for one in find(path)]
    found += [one for path in paths for one in ends(path, end_growth(paths))]
    found += [*foreign_ends(common, paths)]
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


@every_kind
def test_an_end_that_is_scaled_as_a_whole_is_found(kind: str) -> None:
    checkpoints = series(kind)
    checkpoints[-1] = {name: 1.2 * weight for name, weight in checkpoints[-1].items()}
    assert (11, "") in rows(checkpoints)


def test_the_way_over_a_checkpoint_is_in_units_of_the_way_between_its_neighbours() -> None:
    points = [[0.0, 0.0], [1.0, 0.0], [2.0, 3.0], [3.0, 0.0], [3.0, 0.0]]
    (path,) = paths_of(sketches_of([{"w": torch.tensor(point)} for point in points]))
    # a point aside at (2, 3); the last point but one is where the last one is: no further than rounding
    assert detour_ratios(path) == pytest.approx([(1 + 10**0.5) / 13**0.5, 10**0.5, 1.0])
    assert len(detour_ratios(path.at(path.rows[:2]))) == 0


def test_a_deviation_says_how_far_and_how_long() -> None:
    checkpoints = series("drift")
    checkpoints[5]["w0"] = 3 * checkpoints[5]["w0"]
    (found,) = detours(paths_of(sketches_of(checkpoints))[0])
    assert found.scale == pytest.approx(3, rel=0.1)
    assert found.times == pytest.approx(2 * 2 / 0.02, rel=0.3)


@pytest.mark.parametrize("at", [1, 5, 11])
def test_a_head_that_is_zero_at_one_checkpoint_is_found(at: int) -> None:
    checkpoints = series("walk", shape=(8, 10, 4))
    for one in checkpoints:
        one["w0"] *= 1 + torch.rand(()) / 2  # too much for the way to tell
    checkpoints[at]["w0"][3] = 0
    (found,) = vanished(paths_of(sketches_of(checkpoints))[0])
    assert (found.checkpoint, found.times) == (at, math.inf)


def test_pruning_that_stays_and_zeros_at_the_start_are_no_fault() -> None:
    checkpoints = series("walk")
    checkpoints[0]["w0"].zero_()
    for one in checkpoints[6:]:
        one["w1"][:10] = 0
    assert not [one for path in common_of(checkpoints)[1] for one in vanished(path)]


def test_a_small_change_within_the_rounding_of_a_coarse_type_is_none() -> None:
    checkpoints = [{"w": torch.ones(40, 40, dtype=torch.bfloat16)} for _ in range(12)]
    checkpoints[5]["w"][:20] += 2**-7
    assert not [*detours(paths_of(sketches_of(checkpoints))[0])]


def test_a_small_start_that_grows_is_no_foreign_end() -> None:
    checkpoints = series("drift")
    checkpoints[0] = {name: 0.01 * torch.randn(weight.shape) for name, weight in checkpoints[0].items()}
    common, paths = common_of(checkpoints)
    assert not [*foreign_ends(common, paths)]


@pytest.mark.each_value
@pytest.mark.parametrize("bits", [6, 8])
@every_kind
def test_weights_of_few_bits_round_to_zero_now_more_now_fewer(kind: str, bits: int) -> None:
    def rounded(weight: Tensor) -> Tensor:
        level = float(weight.abs().max()) / (2 ** (bits - 1) - 1)
        result: Tensor = torch.round(weight / level) * level
        return result

    checkpoints = [{name: rounded(weight) for name, weight in one.items()} for one in series(kind, n=30)]
    assert rows(checkpoints) == set()
    checkpoints[5]["w1"][:8] = 0
    assert (5, "w1") in rows(checkpoints)


@every_kind
def test_a_start_that_decays_as_a_whole_is_no_fault(kind: str) -> None:
    checkpoints = series(kind)
    checkpoints[0] = {name: 2.3 * weight for name, weight in checkpoints[0].items()}
    common, paths = common_of(checkpoints)
    assert not [*foreign_ends(common, paths)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_path_that_was_not_touched_does_not_jump(kind: str) -> None:
    common, paths = common_of(series(kind, n=30))
    assert not [*breaks(common, paths, range(30)), *rate_jumps(common, range(30))]


@pytest.mark.parametrize("at", [2, 5, 9])
def test_the_checkpoint_from_which_another_run_goes_on_is_found(at: int) -> None:
    checkpoints = series("walk")[:at] + series("walk", seed=1)[at:]
    common, paths = common_of(checkpoints)
    (jump,) = breaks(common, paths, range(12))
    assert (jump.other, jump.checkpoint) == (at - 1, at)
    assert jump.times is not None
    assert jump.times > 50


@pytest.mark.parametrize("factor", [10.0, 0.1])
def test_a_learning_rate_that_jumps_is_told_and_no_break(factor: float) -> None:
    rates = torch.tensor([1.0] * 8 + [factor] * 8)
    steps = 0.01 * rates[:, None, None] * torch.randn(16, 30, 40, generator=torch.Generator().manual_seed(0))
    start = torch.randn(30, 40, generator=torch.Generator().manual_seed(1))
    common, paths = common_of([{"w": start + moved} for moved in steps.cumsum(0)])
    assert not [*breaks(common, paths, range(16))]
    (jump,) = rate_jumps(common, range(16))
    assert jump.checkpoint == 7
    assert jump.times == pytest.approx(factor, rel=0.3)


def test_strides_over_wider_gaps_are_no_jump() -> None:
    checkpoints = series("walk", n=60)
    steps = [*range(10), *range(10, 60, 5)]
    common, _ = common_of([checkpoints[step] for step in steps])
    assert not [*rate_jumps(common, steps)]
