"""Attention entropy: uniform attention over n keys has log n nats, attention to one key none."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from stagewise.probe import View
from stagewise.probes import AttentionEntropy

FLOAT32 = 1e-6
"""Sums of a few float32 numbers of order one."""


@pytest.mark.parametrize("length", [1, 2, 7])
def test_uniform_causal_attention_has_the_mean_of_log_n(view_of: Callable[..., View], length: int) -> None:
    pattern = torch.ones(length, length).tril()
    pattern = (pattern / pattern.sum(-1, keepdim=True)).expand(2, 1, 1, -1, -1)
    (reading,) = AttentionEntropy().read(view_of(pattern))
    expected = sum(math.log(n) for n in range(1, length + 1)) / length
    assert reading.values.flatten().tolist() == pytest.approx([expected] * 2, abs=FLOAT32)


def test_attention_to_one_key_has_no_entropy(
    view_of: Callable[..., View], looking_back: Callable[[int, int], Tensor]
) -> None:
    (reading,) = AttentionEntropy().read(view_of(looking_back(5, 2).expand(1, 2, 2, -1, -1)))
    assert not reading.values.any()


def test_only_scored_queries_count(view_of: Callable[..., View]) -> None:
    pattern = torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]]).expand(1, 1, 1, -1, -1)
    (reading,) = AttentionEntropy().read(view_of(pattern, scored=torch.tensor([[False, False, True]])))
    expected = -sum(p * math.log(p) for p in (0.2, 0.3, 0.5))
    assert reading.values.item() == pytest.approx(expected, abs=FLOAT32)
    assert (reading.axes, reading.quantity) == ("batch layer head", "entropy")
