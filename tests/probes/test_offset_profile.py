"""Offset profiles: a head that looks k positions back has all its mass at offset k."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from stagewise.probe import View
from stagewise.probes import OffsetProfile

FLOAT32 = 1e-6
"""Sums of a few float32 numbers below one."""

LENGTH = 6
LATE = torch.arange(LENGTH).expand(2, -1) >= 3


@pytest.mark.parametrize("offset", [0, 1, 3])
def test_a_head_that_looks_k_back_has_its_mass_at_k(
    offset: int, view_of: Callable[..., View], looking_back: Callable[[int, int], Tensor]
) -> None:
    view = view_of(looking_back(LENGTH, offset).expand(2, 1, 1, -1, -1), scored=LATE)
    reading, *_ = OffsetProfile().read(view)
    assert reading.values[0, 0, 0].tolist() == [float(k == offset) for k in range(LENGTH)]
    assert list(reading.labels["offset"]) == list(range(LENGTH))


def test_uniform_attention_has_the_mean_of_one_over_n(view_of: Callable[..., View]) -> None:
    pattern = torch.ones(LENGTH, LENGTH).tril() / torch.arange(1, LENGTH + 1)[:, None]
    reading, *_ = OffsetProfile(max_offset=2).read(view_of(pattern.expand(1, 1, 1, -1, -1)))
    for offset, value in enumerate(reading.values[0, 0, 0].tolist()):
        # Queries before position `offset` have no such key: zero mass.
        assert value == pytest.approx(sum(1 / (q + 1) for q in range(offset, LENGTH)) / LENGTH, abs=FLOAT32)


def test_mass_beyond_the_farthest_offset_is_left_out(
    view_of: Callable[..., View], looking_back: Callable[[int, int], Tensor]
) -> None:
    (reading,) = OffsetProfile(max_offset=1).read(view_of(looking_back(LENGTH, 2).expand(2, 1, 1, -1, -1), scored=LATE))
    assert reading.values.shape[-1] == 2
    assert not reading.values.any()


@pytest.mark.parametrize("max_offset", [-1, LENGTH])
def test_an_offset_outside_the_context_is_refused(view_of: Callable[..., View], max_offset: int) -> None:
    with pytest.raises(ValueError, match=f"max_offset must be between 0 and 5, .*; got {max_offset}"):
        OffsetProfile(max_offset).read(view_of(torch.eye(LENGTH).expand(1, 1, 1, -1, -1)))


def test_the_peak_is_the_largest_mass_two_back_or_farther(
    view_of: Callable[..., View], looking_back: Callable[[int, int], Tensor]
) -> None:
    half = (looking_back(LENGTH, 3) + looking_back(LENGTH, 1)) / 2
    _, peak, offset = OffsetProfile().read(view_of(half.expand(2, 1, 1, -1, -1), scored=LATE))
    assert peak.statistic is not None
    assert offset.statistic is not None
    means = peak.values.mean(0).numpy()
    assert peak.statistic(means).tolist() == [[pytest.approx(0.5)]]
    assert offset.statistic(means).tolist() == [[3.0]]
