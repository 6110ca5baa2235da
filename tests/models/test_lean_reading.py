"""The lean pass's weights are the model's own, and none where a part is of an unknown kind."""

from collections.abc import Callable
from typing import Any

import torch

from stagewise import models
from stagewise.models._lean_reading import lean_weights


def test_queries_keys_and_values_are_the_models_own(subject: Callable[..., Any]) -> None:
    one = subject("grouped queries", 1)
    weights = lean_weights(one.built, {})
    assert weights is not None
    named, [layer] = models.weights(one.built), weights.layers
    names = {"Q": layer.q, "_K": layer.k, "_V": layer.v}
    for name, part in names.items():
        W, b = (named[f"blocks.0.attn.{name[:-1]}{kind}_{name[-1]}"] for kind in "Wb")
        assert torch.equal(part.weight.unflatten(0, (-1, 4)), W.mT)
        assert torch.equal(part.bias, b.flatten())


def test_experts_have_no_lean_weights(subject: Callable[..., Any]) -> None:
    assert lean_weights(subject("Mixtral").built, {}) is None
