"""PyTorch's default initialisation: its ranges, and sinusoids that do not train."""

import math

import pytest

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.papers.linear_init import LinearInit
from tests.models.test_native import ARCHITECTURE


def test_linear_init_has_pytorchs_ranges_and_fixed_sinusoids() -> None:
    model = models.build(ARCHITECTURE, seed=3)
    for name, fan_in in (("embed.W_E", 4), ("blocks.0.attn.W_Q", 8), ("blocks.1.mlp.W_out", 16), ("unembed.b_U", 8)):
        weights = models.parameters(model)[name]
        assert 0.5 * fan_in**-0.5 < weights.abs().max().item() <= fan_in**-0.5
    positions = models.parameters(model)["pos_embed.W_pos"]
    assert not positions.requires_grad
    assert positions[0].tolist() == pytest.approx([0, 1] * 4)
    assert positions[2, 4].item() == pytest.approx(math.sin(2 / 10_000 ** (4 / 8)))
    assert models.weights(models.build(ARCHITECTURE, seed=4))["embed.W_E"].std() > 0
    with pytest.raises((ValueError, TypeError), match="embedding"):
        Architecture(ARCHITECTURE.config, LinearInit("sparse"))  # type: ignore[arg-type]
