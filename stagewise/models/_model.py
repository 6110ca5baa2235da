"""The interface of a model: the part of TransformerLens's that everything here is built on."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from stagewise.init import Config

Tokens = Int[Tensor, "batch pos"] | Float[Tensor, "batch pos feature"]
"""What a model reads: tokens, or vectors in their place."""

Logits = Float[Tensor, "batch pos token"]
Residual = Float[Tensor, "batch pos model"]
Scored = Bool[Tensor, "batch pos"]
Rows = Float[Tensor, "scored token"]
"""Predictions that are scored, one a row."""

State = Mapping[str, Tensor]
"""Weights by the names of parameters."""

Activations = Mapping[str, Tensor]
"""What a pass computed, by the names of hooks."""

Hook = tuple[str, Callable[..., Tensor | None]]
"""A hook's name, and a function of its activation; returning None leaves it unchanged."""


@runtime_checkable
class Model(Protocol):
    """A HookedTransformer (transformer-lens 3.9) or a TransformerBridge; naming those types would import them."""

    cfg: Config
    blocks: Any
    unembed: Any
    hook_dict: Mapping[str, Any]

    def __call__(self, tokens: Tensor) -> Tensor:
        """Return the logits."""

    def run_with_cache(self, tokens: Tensor, *, names_filter: Callable[[str], bool]) -> tuple[Tensor, Any]:
        """Return the logits and the activations of the hooks that the filter names."""

    def run_with_hooks(self, tokens: Tensor, *, fwd_hooks: list[Hook], **named: Any) -> Tensor:
        """Return the logits of a pass with hooks."""

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Return the parameters by name."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """Return the parameters."""

    def state_dict(self, *, keep_vars: bool = False) -> Mapping[str, Any]:
        """Return parameters and buffers by name."""

    def to(self, device: str | torch.device, *, print_details: bool = False) -> "Model":
        """Move the model."""


@runtime_checkable
class Bridge(Model, Protocol):
    """A TransformerBridge: the model that it wraps, its parts, and temporary hooks."""

    original_model: Any
    embed: Any
    unembed: Any

    def hooks(self, fwd_hooks: list[Hook]) -> AbstractContextManager[Any]:
        """Keep hooks for the time of a `with` block."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> Any:
        """Copy the weights of a state dict."""


def bare(model: Any) -> Any:
    """Return the model that `torch.compile` or DistributedDataParallel wraps; any other as it is."""
    parallel = isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel)
    inner = model.module if parallel else getattr(model, "_orig_mod", None)
    return model if inner is None else bare(inner)


def is_compiled(model: Any) -> bool:
    """Whether torch compiles it: wrapped, in its place, or a part of it."""
    modules = model.modules() if isinstance(model, nn.Module) else ()
    return any(hasattr(each, "_orig_mod") or each._compiled_call_impl is not None for each in modules)


_LIBRARIES = ("torch", "transformers", "transformer_lens", "accelerate")
"""Packages whose hooks only show what a module computes, or move it."""


def extras(model: Any) -> list[str]:
    """Name what a model computes with beside its weights: hooks that stay, modules in the place of hook points."""
    points = getattr(model, "hook_dict", {})
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    hooks = [hook for each in modules for hook in (*each._forward_hooks.values(), *each._forward_pre_hooks.values())]
    packages = {str(getattr(getattr(hook, "func", hook), "__module__", "")).partition(".")[0] for hook in hooks}
    stay = any(point.fwd_hooks for point in points.values()) or not packages <= {*_LIBRARIES}
    inside = any(re.search(r"hook_\w+\.", name) for name in points)
    return ["hooks that stay"] * stay + ["modules in the place of hook points (sparse autoencoders, say)"] * inside
