"""Matched controls: the head that is held in place of another has the nearest norm of values."""

import torch

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.init import GaussianInit
from stagewise.replay._matched_controls import _matched_head


def test_the_matched_head_has_the_nearest_norm_and_is_of_another_layer_where_it_must_be() -> None:
    one = {f"blocks.{layer}.attn.W_O": torch.full((1, 2, 2), float(2 + layer)) for layer in range(3)}
    assert _matched_head(one, (0, 0)) == (1, 0)
    assert _matched_head({"blocks.0.attn.W_O": one["blocks.0.attn.W_O"]}, (0, 0)) is None


def test_a_head_of_grouped_queries_is_matched_by_the_values_of_its_group() -> None:
    sizes = {"n_layers": 2, "n_heads": 4, "n_key_value_heads": 2, "d_model": 8, "d_head": 4, "n_ctx": 6, "d_vocab": 5}
    made = Architecture({**sizes, "act_fn": "relu"}, GaussianInit(0.4))
    weights = models.weights(models.build(made))
    assert "blocks.0.attn._W_V" in weights
    weights["blocks.0.attn._W_V"][1] *= 100
    for layer in range(2):
        W_O, values = (weights[f"blocks.{layer}.attn.{name}"] for name in ("W_O", "_W_V"))
        norms = [float((values[head // 2] @ W_O[head]).norm()) for head in range(4)]
        for head in range(4):
            others = [each for each in range(4) if each != head]
            expected = min(others, key=lambda each: abs(norms[each] - norms[head]))
            assert _matched_head(weights, (layer, head)) == (layer, expected)
