"""Edited passes around Hugging Face's models against their own attention with their own masks."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from stagewise.intervention import RestrictContext
from stagewise.models import _bridge_edits as bridge_edits

SAME, CUT = 1e-5, 1e-4
"""Log-probabilities of order one to ten in float32: the same sums, and sums in another order through the layers."""

Make = Callable[..., Any]


@pytest.mark.each_value
@pytest.mark.parametrize(("way", "context"), [("as tried", 1), ("as tried", 3), ("as tried", 7), ("z", 3)])
def test_a_restricted_context_is_hugging_faces_own_masked_attention_in_every_layer(
    bridged_kind: str, context: int, way: str, subject: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = subject(bridged_kind)
    if way == "z":
        monkeypatch.setitem(bridge_edits._ROUTES, one.built, "z")
    expected = one.plain(context)
    assert (expected - one.plain()).abs().max() > 0.1
    torch.testing.assert_close(one.edited((RestrictContext(context),)), expected, atol=CUT, rtol=0)


@pytest.mark.parametrize(("kind", "name"), [("Bloom", "self_attention"), ("OPT", "self_attn")])
def test_a_restricted_context_is_masked_attention_where_the_model_takes_no_such_mask(
    kind: str,
    name: str,
    hugging_face: Callable[..., nn.Module],
    bridge_of: Make,
    additive_mask: Callable[[int], Tensor],
) -> None:
    """Bloom and OPT make their own masks: each layer's attention is handed another one."""
    plain = hugging_face(kind)
    one = bridge_of(plain)
    restricted = one.edited((RestrictContext(3),))

    def hand_over(
        module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        assert "attention_mask" in named
        return arguments, {**named, "attention_mask": additive_mask(3)}

    for path, module in plain.named_modules():
        if path.endswith(name):
            module.register_forward_pre_hook(hand_over, with_kwargs=True)
    with torch.no_grad():
        expected = plain(one.tokens).logits.log_softmax(-1)
    torch.testing.assert_close(restricted, expected, atol=CUT, rtol=0)


@pytest.mark.one_of(3)
def test_the_residual_stream_after_every_layer_is_hugging_faces_own(
    bridged_kind: str, hugging_face: Callable[..., nn.Module], bridge_of: Make, additive_mask: Callable[[int], Tensor]
) -> None:
    plain = hugging_face(bridged_kind, **{"n_layer" if bridged_kind in ("GPT2", "GPTJ") else "num_hidden_layers": 3})
    one = bridge_of(plain)
    seen: dict[int, Tensor] = {}
    looks = [(f"blocks.{k}.hook_resid_post", lambda x, hook, k=k: seen.__setitem__(k, x.clone())) for k in range(3)]
    with torch.no_grad():
        expected = plain(one.tokens, attention_mask=additive_mask(3), output_hidden_states=True).hidden_states
        hooks = bridge_edits._restrict(one.built, one.tokens, [], 3)
        one.built.run_with_hooks(one.tokens, fwd_hooks=[*hooks, *looks])
    for layer in range(2):  # Hugging Face shows the last layer's after the final norm
        torch.testing.assert_close(seen[layer], expected[layer + 1], atol=CUT, rtol=CUT)


@pytest.mark.parametrize(
    ("kind", "way"),
    [("GPT2", "scores"), ("GPTNeoX", "scores"), ("Llama", "scores"), ("Gemma2", "scores"), ("GPTJ", "z")],
)
def test_dead_hooks_are_found_out(kind: str, way: str, subject: Make) -> None:
    assert bridge_edits._route(subject(kind).built) == way
