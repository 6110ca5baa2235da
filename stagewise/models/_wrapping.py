"""Put a TransformerBridge around a Hugging Face model, and check that it gives the same logits."""

import contextlib
import re
from collections.abc import Iterator
from importlib import metadata
from typing import Any, TypeGuard

import torch
from jaxtyping import Float, Int
from torch import Tensor

from stagewise.config import in_a_line, line_of
from stagewise.models._model import Bridge

_AGREE, _ROUNDING = 1e-3, 1e-5
"""Differences of a bridge's logits from Hugging Face's own that rounding explains: of their spread, of their size."""


def is_bridge(model: object) -> TypeGuard[Bridge]:
    """Whether it is a TransformerBridge."""
    from transformer_lens.model_bridge import TransformerBridge

    return isinstance(model, TransformerBridge)


def name_of(model: object) -> str:
    """Name the Hugging Face model beneath a bridge; of other models nothing is known but that they are one."""
    beneath = getattr(model, "original_model", None)
    return "the model" if beneath is None else type(beneath).__name__


_NO_MEMORY = "allocate memory|out of memory"
"""torch's words in a RuntimeError where Python would raise a MemoryError."""


@contextlib.contextmanager
def named_in_errors(model: object) -> Iterator[None]:
    """Name the model beneath a bridge in whatever its pass raises, but for a want of memory."""
    try:
        yield
    except Exception as reason:
        if not is_bridge(model) or isinstance(reason, ValueError | MemoryError) or re.search(_NO_MEMORY, str(reason)):
            raise
        raise ValueError(f"{name_of(model)} does not run on these tokens: {line_of(reason)}") from reason


def wrapped(module: Any) -> Bridge:
    """Put a bridge around a Hugging Face model, which is changed in place."""
    tokens = trial_tokens(module.config.vocab_size)
    with in_a_line(f"transformers' own {type(module).__name__} does not run"), torch.inference_mode():
        expected = module(tokens).logits
    head = module.get_output_embeddings()
    biased = head is None or getattr(head, "bias", None) is not None
    bridge = _wrapped(module)
    if not biased and (bias := getattr(bridge.unembed.original_component, "bias", None)) is not None:
        bias.requires_grad_(False)  # transformer-lens 3.9 adds one to every head: the model itself has none to train
    _check(bridge, tokens, expected)
    return bridge


def _wrapped(module: Any) -> Bridge:
    from transformer_lens.model_bridge.sources import build_bridge_from_module

    kind = type(module).__name__
    try:
        with torch.random.fork_rng(devices=[]):
            built: Any = build_bridge_from_module(module, kind, hf_config=module.config, model_name=kind)
    except Exception as reason:  # bridges fail in many ways on a config that they do not know
        raise ValueError(f"TransformerLens has no bridge for {kind} of this config: {line_of(reason)}") from reason
    # No `isinstance` of a protocol: from Python 3.12 on it sees no submodule, which nn.Module looks up.
    if not all(hasattr(built, part) for part in ("cfg", "original_model", "embed", "blocks", "unembed")):
        raise ValueError(f"TransformerLens's bridge around {kind} shows no one stack of layers to measure")
    bridge: Bridge = built
    return bridge


def trial_tokens(d_vocab: int, length: int = 6) -> Int[Tensor, "1 pos"]:
    """Return a few tokens on which a model is tested, as different as its vocabulary allows."""
    return (torch.randperm(max(d_vocab, length), generator=torch.Generator().manual_seed(0))[:length] % d_vocab)[None]


def _check(bridge: Bridge, tokens: Int[Tensor, "batch pos"], expected: Float[Tensor, "batch pos token"]) -> None:
    """Check that a bridge gives the logits of the Hugging Face model that it wraps, where those are finite."""
    try:
        with torch.inference_mode():
            difference = (bridge(tokens) - expected).abs().max().item()
    except Exception as reason:
        raise ValueError(f"the bridge around {name_of(bridge)} does not run: {line_of(reason)}") from reason
    allowed = _AGREE * expected.std().item() + _ROUNDING * expected.abs().max().item()
    if bool(expected.isfinite().all()) and not difference <= allowed:
        raise ValueError(
            f"the bridge of transformer-lens {metadata.version('transformer-lens')} around "
            f"{name_of(bridge)} does not give the model's logits: they differ by "
            f"{difference:.2g}, their spread is {expected.std().item():.2g}. It would be measured as another model: "
            "use another version of transformer-lens"
        )
