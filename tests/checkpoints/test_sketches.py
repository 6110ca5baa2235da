"""Sketches: distances between weights are kept, equal weights have equal ones, and what is odd about a weight shows."""

import math

import numpy as np
import pytest
import torch

from stagewise.checkpoints._sketches import NUMBERS, PERIOD, common_path, norm, paths_of, project, sketched
from tests.checkpoints.walks import KINDS, common_of, series, sketches_of


@pytest.mark.parametrize("size", [NUMBERS + 1, PERIOD - 1, PERIOD, 3 * PERIOD + 17])
def test_distances_are_kept_up_to_a_few_percent(size: int) -> None:
    first, second = torch.randn(2, size, generator=torch.Generator().manual_seed(size))
    kept = np.linalg.norm(project(first) - project(second))
    assert kept == pytest.approx(float((first - second).norm()), rel=0.2)


def test_a_small_weight_is_kept_whole() -> None:
    weight = torch.arange(6.0)
    assert project(weight).tolist() == weight.tolist()


def test_the_map_is_linear() -> None:
    first, second = torch.randn(2, 5000, generator=torch.Generator().manual_seed(0))
    np.testing.assert_allclose(project(2 * first - second), 2 * project(first) - project(second), atol=1e-3)


def test_equal_weights_have_equal_sketches_wherever_they_lie_in_memory() -> None:
    weight = torch.randn(40, 50)
    shifted = torch.cat([torch.zeros(1), weight.flatten()])[1:].view(40, 50)
    one, other = sketched({"w": weight})["w"], sketched({"w": shifted})["w"]
    assert one.bits == other.bits
    np.testing.assert_allclose(one.numbers, other.numbers, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [100, 3000])
def test_a_permutation_is_another_weight(size: int) -> None:
    weight = torch.randn(size, generator=torch.Generator().manual_seed(0))
    one, other = sketched({"w": weight})["w"], sketched({"w": weight.flip(0)})["w"]
    expected = float((weight - weight.flip(0)).norm())
    assert np.linalg.norm(one.numbers - other.numbers) == pytest.approx(expected, rel=0.2)
    assert one.norm == pytest.approx(other.norm)
    assert one.bits != other.bits


def test_half_precision_weights_that_change_by_single_digits_never_have_one_hash() -> None:
    draw = torch.Generator().manual_seed(0)
    start = torch.rand(576, generator=draw).bfloat16() + 1
    moved = [start + (torch.randint(-1, 2, (576,), generator=draw) / 128).bfloat16() for _ in range(200)]
    assert len({sketched({"w": weight})["w"].bits for weight in moved}) == 200


def test_norm_and_size_are_told() -> None:
    weight = torch.randn(20, 30)
    sketch = sketched({"w": weight})["w"]
    assert (sketch.size, sketch.shape, sketch.uniform) == (600, (20, 30), False)
    assert sketch.norm == pytest.approx(float(weight.norm()))
    assert sketched({"w": torch.ones(9)})["w"].uniform


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_finite_has_such_a_norm(value: float) -> None:
    weight = torch.ones(4, 4)
    weight[1, 2] = value
    assert not math.isfinite(sketched({"w": weight})["w"].norm)


def test_large_finite_entries_have_a_finite_norm() -> None:
    assert sketched({"w": torch.full((4,), 1e30)})["w"].norm == pytest.approx(2e30)


FLOATS = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float16, torch.bfloat16, torch.float64)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int8, torch.bool, torch.complex64])
def test_any_type_has_a_sketch(dtype: torch.dtype) -> None:
    sketch = sketched({"w": torch.ones(3, 3).to(dtype)})["w"]
    assert sketch.norm == pytest.approx(3)
    assert sketch.kind == str(dtype)


@pytest.mark.parametrize("shape", [(), (0,), (0, 0), (1,)])
def test_an_empty_weight_and_a_number_have_a_sketch(shape: tuple[int, ...]) -> None:
    assert sketched({"w": torch.ones(shape)})["w"].size == math.prod(shape)


def test_what_is_kept_of_a_checkpoint_lies_together() -> None:
    kept = sketched({"weight": torch.randn(300, 20), "bias": torch.randn(7)})
    assert [len(one.numbers) for one in kept.values()] == [NUMBERS, 7]
    assert len({id(one.numbers.base) for one in kept.values()}) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("of", [1, 2])
def test_strides_are_distances_between_weights(kind: str, of: int) -> None:
    checkpoints = series(kind)
    path = paths_of(sketches_of(checkpoints))[0]
    expected = [float((b["w0"] - a["w0"]).norm()) for a, b in zip(checkpoints, checkpoints[of:], strict=False)]
    np.testing.assert_allclose(path.strides(of), expected, rtol=0.2)


def test_cosines_are_those_of_neighbours_and_one_beside_zero() -> None:
    weights = [torch.tensor(values) for values in ([1.0, 0], [1.0, 1], [-1.0, -1], [0.0, 0], [0.0, 3])]
    (path,) = paths_of(sketches_of([{"w": weight} for weight in weights]))
    np.testing.assert_allclose(path.cosines(), [0.5**0.5, -1, 1, 1])


def test_a_checkpoint_without_a_weight_or_with_another_shape_or_not_finite_is_not_on_its_path() -> None:
    checkpoints = series("walk", n=8)
    del checkpoints[1]["w0"]
    checkpoints[3]["w0"] = checkpoints[3]["w0"][:4]
    checkpoints[5]["w0"][0, 0] = torch.nan
    path, *_ = (one for one in paths_of(sketches_of(checkpoints)) if one.name == "w0")
    assert path.rows.tolist() == [0, 2, 4, 6, 7]
    assert len(path.strides()) == 4
    common, _ = common_of(checkpoints)
    assert common.rows.tolist() == [0, 2, 4, 6, 7]


def test_the_common_path_counts_each_weight_in_its_own_strides() -> None:
    checkpoints = series("walk", weights=2)
    for one in checkpoints:
        one["w1"] = 1000 * one["w1"]
    common, _ = common_of(checkpoints)
    assert np.median(common.strides()) == pytest.approx(1, rel=0.1)


def test_what_never_moves_is_on_no_common_path() -> None:
    fixed = {"w": torch.randn(30, 40)}
    paths = paths_of(sketches_of([fixed] * 5))
    assert common_path(paths) is None
    assert not paths[0].moves()
    moving = [{**fixed, "v": torch.randn(10, 10)} for _ in range(5)]
    common, _ = common_of(moving)
    assert common.size == 100


def test_a_path_without_some_checkpoints_joins_their_neighbours() -> None:
    path = paths_of(sketches_of(series("drift", n=6)))[0]
    shorter = path.without([2, 3])
    assert shorter.rows.tolist() == [0, 1, 4, 5]
    assert shorter.strides()[1] == pytest.approx(path.strides(3)[1])


def test_the_norm_of_float32_differences_is_taken_in_float64() -> None:
    assert norm(np.array([[3e-30, 4e-30]], dtype=np.float32))[0] == pytest.approx(5e-30)
