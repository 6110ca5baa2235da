"""The training pass against the hooked model: same logits, same gradients, or the model itself."""

from typing import Any

import pytest
import torch

from stagewise import models as model
from stagewise.architecture import Architecture
from stagewise.init import GaussianInit
from stagewise.models.fused import training_forward

FLOAT32 = 1e-5
"""Logits of order one, sums in another order."""

SMALL = {"n_layers": 2, "d_model": 12, "d_head": 4, "n_ctx": 7, "d_vocab": 5, "act_fn": "relu", "d_mlp": 10}
TOKENS = torch.randint(5, (4, 7), generator=torch.Generator().manual_seed(0))

COVERED = {
    f"{norm} {kind} {layers}": {"normalization_type": norm, "n_layers": layers, **change}
    for norm in ("LN", "LNPre", None)
    for kind, change in {"attn-only": {"attn_only": True}, "MLP": {}}.items()
    for layers in (1, 2)
} | {
    "gelu": {"act_fn": "gelu"},
    "silu": {"act_fn": "silu"},
    "own scale": {"attn_scale": 3.0},
    "wide heads": {"n_heads": 5, "d_head": 3},
    "large eps": {"eps": 0.1},
    "other output vocabulary": {"d_vocab_out": 9},
    "more tokens than positions in the batch": {"d_vocab": 40, "normalization_type": None},
}
NOT_COVERED = {
    "rotary": {"positional_embedding_type": "rotary", "rotary_dim": 4},
    "gated": {"gated_mlp": True},
    "grouped queries": {"n_key_value_heads": 1},
    "RMS norm": {"normalization_type": "RMS"},
    "bidirectional": {"attention_dir": "bidirectional"},
    "another gelu": {"act_fn": "gelu_new"},
    "soft cap of the logits": {"output_logits_soft_cap": 30.0},
    "soft cap of the scores": {"attn_scores_soft_cap": 30.0},
}
if model.has_hooked_transformer():  # what transformer-lens 4 would ignore is refused there
    COVERED |= {
        "unscaled scores": {"use_attn_scale": False},
        "scores scaled by layer": {"scale_attn_by_inverse_layer_idx": True},
        "positions for queries and keys alone": {"positional_embedding_type": "shortformer"},
        "unscaled scores by layer": {"use_attn_scale": False, "scale_attn_by_inverse_layer_idx": True},
    }
    NOT_COVERED |= {
        "alibi": {"positional_embedding_type": "alibi"},
        "local attention": {"use_local_attn": True, "window_size": 2, "attn_types": ["local", "local"]},
        "parallel": {"parallel_attn_mlp": True},
        "norm of queries and keys": {"use_qk_norm": True},
    }


def build(change: dict[str, Any]) -> model.Model:
    """A model with every parameter random, biases and norms too."""
    built = model.build(Architecture({**SMALL, **change}, GaussianInit(0.3)))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return built


@pytest.mark.parametrize("change", COVERED.values(), ids=COVERED.keys())
def test_the_fused_pass_equals_the_hooked_model(change: dict[str, Any]) -> None:
    built = build(change)
    forward = training_forward(built, TOKENS[:1])
    assert forward is not built
    logits = built(TOKENS)
    assert logits.std() > 0.1
    torch.testing.assert_close(forward(TOKENS), logits, atol=FLOAT32, rtol=FLOAT32)


@pytest.mark.parametrize("change", COVERED.values(), ids=COVERED.keys())
def test_the_fused_pass_has_the_hooked_models_gradients(change: dict[str, Any]) -> None:
    built = build(change)
    weights = [parameter for parameter in built.parameters() if parameter.requires_grad]
    gradients = [
        torch.autograd.grad(forward(TOKENS).log_softmax(-1)[..., 0].mean(), weights, allow_unused=True)
        for forward in (built, training_forward(built, TOKENS[:1]))
    ]
    for hooked, fused in zip(*gradients, strict=True):
        torch.testing.assert_close(fused, hooked, atol=FLOAT32, rtol=FLOAT32)


@pytest.mark.parametrize("change", NOT_COVERED.values(), ids=NOT_COVERED.keys())
def test_what_the_fused_pass_does_not_cover_is_left_to_the_model(change: dict[str, Any]) -> None:
    built = build(change)
    assert training_forward(built, TOKENS) is built


def test_the_fused_pass_follows_the_models_parameters() -> None:
    built = build({})
    forward = training_forward(built, TOKENS)
    before = forward(TOKENS)
    with torch.no_grad():
        model.parameters(built)["unembed.W_U"].mul_(2)
    assert not torch.equal(forward(TOKENS), before)
    torch.testing.assert_close(forward(TOKENS), built(TOKENS), atol=FLOAT32, rtol=FLOAT32)


def test_the_fused_pass_takes_shorter_sequences() -> None:
    built = build({})
    torch.testing.assert_close(
        training_forward(built, TOKENS)(TOKENS[:, :3]), built(TOKENS[:, :3]), atol=FLOAT32, rtol=FLOAT32
    )
