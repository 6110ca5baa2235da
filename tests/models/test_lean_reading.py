"""The lean pass's weights are the model's own, and none where a part is of an unknown kind."""

from collections.abc import Callable
from typing import Any

import torch

from stagewise import models
from stagewise.models._lean_reading import lean_weights


def test_queries_keys_and_values_stand_side_by_side(subject: Callable[..., Any]) -> None:
    one = subject("grouped queries", 1)
    weights = lean_weights(one.built, {})
    assert weights is not None
    assert weights.layers[0].W_QKV.shape == (16, (4 + 2 + 2) * 4)
    named = models.weights(one.built)
    assert torch.equal(weights.layers[0].W_QKV[:, 4:8], named["blocks.0.attn.W_Q"][1])


def test_experts_have_no_lean_weights(subject: Callable[..., Any]) -> None:
    assert lean_weights(subject("Mixtral").built, {}) is None
