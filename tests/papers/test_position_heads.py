"""Heads that attend by position alone: what they start from, and what they cannot be wired in."""

from typing import Any

import pytest
import torch

from stagewise import models as model
from stagewise.architecture import Architecture
from stagewise.papers.position_heads import PositionHeadsInit, position_heads
from stagewise.recipe import describe, rebuild

D, LENGTH, HEADS = 5, 6, 3


def test_position_heads_start_from_the_given_logits_and_from_no_values() -> None:
    logits = ((1.0, 2.0, -1.0), (0.5, 0.0, 3.0))
    made = position_heads(2, 3, n_heads=2, logits=logits)
    inputs = torch.randn(4, 3, 2, generator=torch.Generator().manual_seed(0))
    outputs, cache = model.clean_pass(
        model.build(made), inputs, ["blocks.0.attn.hook_pattern", "blocks.0.attn.hook_z"], regression=True
    )
    assert not outputs.any()
    attention = torch.tensor(logits).softmax(-1)
    torch.testing.assert_close(cache["blocks.0.attn.hook_pattern"][:, :, -1], attention.expand(4, -1, -1))
    torch.testing.assert_close(
        cache["blocks.0.attn.hook_z"][:, -1, :, :2], torch.einsum("hp,bpd->bhd", attention, inputs)
    )


@pytest.mark.parametrize(
    ("config", "logits", "message"),
    [
        ({"d_head": 7}, 1e-3, r"needs \(n_layers, d_head, d_model\) = \(1, 6, 16\); got \(1, 7, 16\)"),
        ({"n_layers": 2}, 1e-3, r"got \(2, 6, 16\)"),
        ({}, ((0.0,) * 6,) * 2, r"logits are 3 rows \(heads\) of 6 numbers"),
        ({}, ((0.0,) * 5,) * 3, r"logits are 3 rows \(heads\) of 6 numbers"),
    ],
    ids=["width", "layers", "heads", "positions"],
)
def test_what_position_heads_cannot_be_wired_in_is_refused(
    config: dict[str, Any], logits: float | tuple[tuple[float, ...], ...], message: str
) -> None:
    made = Architecture({**position_heads(D, LENGTH, HEADS).config, **config}, PositionHeadsInit(logits))
    with pytest.raises(ValueError, match=message):
        model.build(made)


def test_they_are_recorded_by_their_name_alone() -> None:
    described = describe(PositionHeadsInit(0.5))
    assert described == {"type": "PositionHeadsInit", "logits": 0.5}
    assert rebuild(described) == PositionHeadsInit(0.5)
