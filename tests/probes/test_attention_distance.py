"""Distance: a head that looks a fixed way back has that distance, and a mixture the mean."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from stagewise.probe import View
from stagewise.probes import AttentionDistance

LENGTH = 8


@pytest.mark.parametrize("offset", [0, 1, 3])
def test_a_head_that_looks_back_has_that_distance(
    offset: int, view_of: Callable[..., View], looking_back: Callable[[int, int], Tensor]
) -> None:
    scored = (torch.arange(LENGTH) >= offset).expand(3, -1)
    pattern = looking_back(LENGTH, offset).expand(3, 1, 1, -1, -1)
    (reading,) = AttentionDistance().read(view_of(pattern, scored=scored))
    torch.testing.assert_close(reading.values, torch.full((3, 1, 1), float(offset)))


def test_attention_on_several_keys_has_their_mean_distance(view_of: Callable[..., View]) -> None:
    pattern = torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0], [0.25, 0.5, 0.25]]).expand(1, 1, 1, 3, 3)
    (reading,) = AttentionDistance().read(view_of(pattern))
    torch.testing.assert_close(reading.values, torch.full((1, 1, 1), (0 + 0.5 + (0.25 * 2 + 0.5)) / 3))


def test_what_a_sink_takes_is_at_no_distance(view_of: Callable[..., View]) -> None:
    pattern = torch.tensor([[0.0, 0, 0], [0.0, 0, 0], [0.25, 0, 0.25]]).expand(1, 1, 1, 3, 3)
    (reading,) = AttentionDistance().read(view_of(pattern))
    torch.testing.assert_close(reading.values, torch.full((1, 1, 1), (0 + 0 + 0.25 * 2) / 3))
