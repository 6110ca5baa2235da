"""Equal to rounding, and nothing else."""

import pytest
import torch

from stagewise.models._rounding import SAME, same


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_scale_is_the_largest_entry(scale: float) -> None:
    other = scale * torch.tensor([0.001, -2.0])
    for part, expected in ((0.9, True), (1.1, False)):
        assert same(other + torch.tensor([part * SAME * 2 * scale, 0.0]), other) is expected


def test_of_what_cancelled_the_rounding_is_that_of_its_parts() -> None:
    one, other, of = torch.tensor([0.0]), torch.tensor([1e-3]), torch.tensor([100.0, -100.0])
    assert not same(one, other)
    assert same(one, other, of)


def test_another_shape_and_numbers_that_are_not_finite_are_never_the_same() -> None:
    one = torch.ones(2)
    assert not same(one, torch.ones(2, 1))
    assert not same(one * torch.nan, one)
    assert not same(one, one * torch.nan)
