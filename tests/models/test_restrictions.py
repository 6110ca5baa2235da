"""The numbers of one head: what else the head's output and nothing but it depends on."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from stagewise import models
from stagewise.models._restrictions import of_head, trained


@pytest.mark.parametrize("kind", ["LN and MLP", "grouped queries", "rotary", "half rotary", "attention only"])
def test_moving_a_heads_numbers_moves_its_output_and_no_other_heads(kind: str, subject: Callable[..., Any]) -> None:
    one = subject(kind, 2)
    masks = of_head(one.built, 0, 1)
    sharing = {0, 1} if kind == "grouped queries" else {1}
    assert len(masks) == 7
    name, written = "blocks.0.attn.hook_z", "blocks.1.hook_resid_pre"
    _, before = models.clean_pass(one.built, one.tokens, [name, written])
    state, named = models.weights(one.built), models.parameters(one.built)
    try:
        with torch.no_grad():
            for parameter, mask in masks.items():
                named[parameter].add_(torch.rand(mask.shape, generator=torch.Generator().manual_seed(0)) * mask)
        _, after = models.clean_pass(one.built, one.tokens, [name, written])
    finally:
        models.load(one.built, state)
    moved = (after[name] - before[name]).abs().amax((0, 1, 3))
    assert {head for head, change in enumerate(moved.tolist()) if change > 1e-6} == sharing
    assert not torch.equal(after[written], before[written])


def test_the_heads_of_a_layer_have_all_of_its_attention_but_the_output_bias(subject: Callable[..., Any]) -> None:
    one = subject("LN and MLP", 2)
    named = models.parameters(one.built)
    total = sum(mask.int() for head in range(4) for mask in [*of_head(one.built, 1, head).values()][:1])
    assert isinstance(total, torch.Tensor)
    assert (total == 1).all()
    heads = sum(int(mask.sum()) for head in range(4) for mask in of_head(one.built, 1, head).values())
    attention = [weight for name, weight in named.items() if name.startswith("blocks.1.attn.")]
    assert heads == sum(weight.numel() for weight in attention) - one.built.cfg.d_model


def test_a_head_that_is_not_there_and_a_model_of_other_names_are_refused(subject: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="there is no head L0H4: the model has 2 layers of 4 heads"):
        of_head(subject("LN and MLP", 2).built, 0, 4)
    with pytest.raises(ValueError, match="single heads of GPT2LMHeadModel are not told apart"):
        of_head(subject("GPT2").built, 0, 0)


@pytest.mark.parametrize("kind", ["GPT2", "GPTNeoX", "Llama", "Gemma2", "GPTJ", "Bloom", "OPT", "Mixtral"])
def test_of_a_bridge_all_that_hugging_faces_model_has_is_trained_once(
    kind: str, subject: Callable[..., Any], hugging_face: Callable[..., nn.Module]
) -> None:
    one = subject(kind)
    named = list(trained(one.built).values())
    logits = one.built(one.tokens)
    gradients = torch.autograd.grad(logits.square().sum(), named, allow_unused=True)
    used = sum(len(gradient.flatten()) for gradient in gradients if gradient is not None)
    assert used == sum(parameter.numel() for parameter in hugging_face(kind).parameters())
