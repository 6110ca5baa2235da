"""Put a TransformerBridge around a Hugging Face model, and check that it gives the same logits."""

from importlib import metadata
from typing import Any, TypeGuard

import torch
from jaxtyping import Float, Int
from torch import Tensor

from stagewise.models.model import Bridge

AGREE, ROUNDING = 1e-3, 1e-5
"""Differences of a bridge's logits from Hugging Face's own that rounding explains: of their spread, of their size."""


def is_bridge(model: object) -> TypeGuard[Bridge]:
    """Whether it is a TransformerBridge."""
    from transformer_lens.model_bridge import TransformerBridge

    return isinstance(model, TransformerBridge)


def wrapped(module: Any) -> Bridge:
    """Put a bridge around a Hugging Face model, which is changed in place.

    Raises:
        ValueError: TransformerLens has no bridge for it, or one that computes something else.
    """
    tokens = trial_tokens(module.config.vocab_size)
    with torch.inference_mode():
        expected = module(tokens).logits
    bridge = _wrapped(module)
    check(bridge, tokens, expected)
    return bridge


def _wrapped(module: Any) -> Bridge:
    from transformer_lens.model_bridge.sources import build_bridge_from_module

    kind = type(module).__name__
    try:
        with torch.random.fork_rng(devices=[]):
            bridge: Bridge = build_bridge_from_module(module, kind, hf_config=module.config, model_name=kind)
            return bridge
    except (KeyError, ValueError, NotImplementedError) as reason:
        raise ValueError(f"TransformerLens has no bridge for {kind}: {reason}") from reason


def trial_tokens(d_vocab: int) -> Int[Tensor, "1 pos"]:
    """Return a few tokens on which a model is tested."""
    return (torch.arange(6) * 7 % d_vocab)[None]


def check(bridge: Bridge, tokens: Int[Tensor, "batch pos"], expected: Float[Tensor, "batch pos token"]) -> None:
    """Check that a bridge gives the logits of the Hugging Face model that it wraps, where those are finite.

    Raises:
        ValueError: it does not; some of TransformerLens's bridges do not.
    """
    try:
        with torch.inference_mode():
            difference = (bridge(tokens) - expected).abs().max().item()
    except RuntimeError as reason:
        raise ValueError(f"the bridge around {type(bridge.original_model).__name__} does not run: {reason}") from reason
    allowed = AGREE * expected.std().item() + ROUNDING * expected.abs().max().item()
    if bool(expected.isfinite().all()) and not difference <= allowed:
        raise ValueError(
            f"the bridge of transformer-lens {metadata.version('transformer-lens')} around "
            f"{type(bridge.original_model).__name__} does not give the model's logits: they differ by "
            f"{difference:.2g}, their spread is {expected.std().item():.2g}. It would be measured as another model: "
            "use another version of transformer-lens"
        )
