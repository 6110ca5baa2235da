"""A model that weights will be loaded into: built like any other, but for the time that drawing at random takes.

All of its parameters are replaced before anything is read of it. Buffers that are not loaded, as masks and tables of
rotary positions, are computed by the library that builds them. A bridge is checked on weights of the usual sizes.
"""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from stagewise.architecture import Architecture
from stagewise.models._building import build
from stagewise.models._model import Model

_DRAWN = 2**16 + 1
"""Numbers of a tensor that are drawn; the others repeat them. No power of two: the rows of a matrix differ."""

_ATEN = torch.ops.aten


def unloaded(architecture: Architecture, device: str | torch.device = "cpu") -> Model:
    """Build a model for weights that are loaded: its own are as large as those of `build`, and mean nothing."""
    with _Repeating():  # type: ignore[no-untyped-call]  # torch's modes are not annotated
        return build(architecture, device=device)


class _Repeating(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Draws the first numbers of large tensors, and repeats them."""

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kind, (first, *others), named = function.overloadpacket, args or (None,), kwargs or {}
        if kind in (_ATEN.normal_, _ATEN.uniform_) and first.numel() > _DRAWN and first.is_contiguous():
            return _repeated(function(first.view(-1)[:_DRAWN], *others, **named), first)
        if kind in (_ATEN.randn, _ATEN.rand) and torch.Size(first).numel() > _DRAWN:
            few = function([_DRAWN], *others, **named)
            return _repeated(few, few.new_empty(first))
        return function(*args, **named)


def _repeated(few: Tensor, tensor: Tensor) -> Tensor:
    """Fill a tensor with a few numbers, in turn."""
    flat, whole = tensor.view(-1), tensor.numel() // _DRAWN * _DRAWN
    flat[:whole].view(-1, _DRAWN).copy_(few.expand(whole // _DRAWN, _DRAWN))
    flat[whole:].copy_(few[: tensor.numel() - whole])
    return tensor
