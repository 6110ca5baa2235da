"""Sketches: distances between weights are kept, equal weights have equal ones, and what is odd about a weight shows."""

import math

import numpy as np
import pytest
import torch

from stagewise.checkpoints._sketches import NUMBERS, PERIOD, project, sketched


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


def test_norm_zeros_and_precision_are_told() -> None:
    weight = torch.randn(20, 30)
    weight[:5] = 0
    sketch = sketched({"w": weight})["w"]
    assert (sketch.zeros, sketch.size, sketch.shape, sketch.uniform) == (150, 600, (20, 30), False)
    assert sketch.norm == pytest.approx(float(weight.norm()))
    assert sketch.rounding == ""
    for kind in (torch.bfloat16, torch.float16):
        assert sketched({"w": weight.to(kind).float()})["w"].rounding == str(kind).removeprefix("torch.")
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
