"""Effective support: one for one key, all for uniform attention."""

from collections.abc import Callable

import torch
from torch import Tensor

from stagewise.probe import View
from stagewise.probes import EffectiveSupport

LENGTH = 8


def test_one_key_is_a_support_of_one(view_of: Callable[..., View], looking_back: Callable[[int, int], Tensor]) -> None:
    (reading,) = EffectiveSupport().read(view_of(looking_back(LENGTH, 1).expand(3, 1, 1, -1, -1)))
    torch.testing.assert_close(reading.values, torch.ones(3, 1, 1))


def test_uniform_attention_has_a_support_of_all_keys(view_of: Callable[..., View]) -> None:
    uniform = torch.ones(LENGTH, LENGTH).tril()
    pattern = (uniform / uniform.sum(-1, keepdim=True)).expand(3, 1, 1, -1, -1)
    (reading,) = EffectiveSupport().read(view_of(pattern))
    torch.testing.assert_close(reading.values, torch.full((3, 1, 1), (1 + LENGTH) / 2))


def test_only_scored_queries_count(view_of: Callable[..., View]) -> None:
    pattern = torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0], [0.5, 0.25, 0.25]]).expand(1, 1, 1, 3, 3)
    (reading,) = EffectiveSupport().read(view_of(pattern, scored=torch.tensor([[False, False, True]])))
    torch.testing.assert_close(reading.values, torch.full((1, 1, 1), 1 / (1 / 4 + 1 / 16 + 1 / 16)))


def test_what_a_sink_takes_is_no_key(view_of: Callable[..., View]) -> None:
    pattern = torch.tensor([[0.0, 0, 0], [0.1, 0, 0], [1e-30, 1e-30, 0]]).view(1, 1, 1, 3, 3)
    for query, keys in enumerate((0.0, 1.0, 2.0)):
        (reading,) = EffectiveSupport().read(view_of(pattern, scored=torch.arange(3)[None] == query))
        torch.testing.assert_close(reading.values, torch.full((1, 1, 1), keys))
