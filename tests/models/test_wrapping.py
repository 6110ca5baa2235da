"""A bridge computes what the Hugging Face model does, or is refused."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.models import _wrapping as wrapping


def test_a_bridge_that_computes_something_else_is_refused() -> None:
    """Falcon with ALiBi, in 3.9 and in 4.3: its bridge scales the positions as it scales the scores."""
    from transformers import FalconConfig

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 32}
    with pytest.raises(ValueError, match="FalconForCausalLM does not give the model's logits: they differ by"):
        models.build(Architecture(FalconConfig(**sizes, alibi=True).to_dict()))


def test_a_bridge_around_a_model_gives_the_models_own_logits(hugging_face: Callable[..., nn.Module]) -> None:
    tokens = wrapping.trial_tokens(32)
    with torch.no_grad():
        expected = hugging_face("GPT2")(tokens).logits
        bridge = wrapping.wrapped(hugging_face("GPT2"))
        torch.testing.assert_close(bridge(tokens), expected, atol=1e-4, rtol=0)
    assert wrapping.is_bridge(bridge)
    assert not wrapping.is_bridge(hugging_face("GPT2"))
    wrapping._check(bridge, tokens, expected)
    with pytest.raises(ValueError, match=f"they differ by {expected.std():.2g}"):
        wrapping._check(bridge, tokens, expected + expected.std())
    wrapping._check(bridge, tokens, expected.index_fill(2, torch.tensor([3]), torch.nan))  # nothing to compare with


def test_trial_tokens_lie_in_the_vocabulary_and_differ() -> None:
    assert len(wrapping.trial_tokens(32).unique()) == 6
    assert len(wrapping.trial_tokens(7, 8).unique()) == 7  # no period of the vocabulary's own
    assert wrapping.trial_tokens(3).unique().tolist() == [0, 1, 2]
