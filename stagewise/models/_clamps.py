"""Heads that training holds as they are."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool
from torch import Tensor

from stagewise.models import _held_attention as held_attention
from stagewise.models import _native as native
from stagewise.models._bridge_loading import is_bridge
from stagewise.models._model import Model
from stagewise.models._weights import in_hooked_layout, in_own_layout, parameters
from stagewise.plan import ClampHead
from stagewise.table import Head, check_head, head_label
from stagewise.task import AbstractTask

_QUERIES, _KEYS, _VALUES = ("W_Q", "b_Q"), ("W_K", "b_K"), ("W_V", "b_V")
_HELD = {
    "out": (*_QUERIES, *_KEYS, *_VALUES, "W_O"),
    "weights": (*_QUERIES, *_KEYS, *_VALUES, "W_O"),
    "pattern": (*_QUERIES, *_KEYS),
    "uniform": (*_QUERIES, *_KEYS),
    "relation": (),
    "kick": (),
}
"""By kind, the parameters [head ...] whose part of the head is held."""

_ZERO = {"out": ("W_O",), "uniform": _QUERIES}
"""By kind, those of them that are zero."""

_KICKED = ("W_O", "W_V", "_W_V")
"""Parameters [head ...] of which a kick moves the first one that trains."""

_SAMPLE = 32
"""Sequences by which a relation is known to mark the same keys in all of them."""


class _HeldWeights(NamedTuple):
    """A head's part of a parameter, in a HookedTransformer's layout."""

    name: str
    head: int
    value: Tensor


class Clamps:
    """The clamps of a training, told of every step."""

    def __init__(
        self,
        model: Model,
        clamps: Sequence[ClampHead],
        relations: Mapping[str, Bool[Tensor, "query key"]] = MappingProxyType({}),
    ) -> None:
        """Check that the model has the heads."""
        self.model, self.relations, self.held = model, relations, dict[ClampHead, list[_HeldWeights]]()
        self.clamps = sorted(clamps, key=lambda clamp: clamp.start)
        self.parted = set[Head]()
        """Heads that a clamp has made unlike the others of their layer."""
        for clamp in self.clamps:
            _check(model, clamp)

    def begin(self, step: int) -> None:
        """Take hold of the heads whose clamps start at this step, or have started before: after it was saved."""
        for clamp in self.clamps:
            if clamp.start <= step:
                moved = range(self.model.cfg.n_heads) if clamp.kind == "kick" else [clamp.head]
                self.parted |= {(clamp.layer, head) for head in moved}
            if clamp.kind == "kick" and step == clamp.start:
                self._kick(clamp)
            elif clamp.start <= step and clamp not in self.held:
                self.held[clamp] = self._held_by(clamp)
                if clamp.relation is not None:
                    self._attend(clamp, self.relations[clamp.relation])
        self.restore()

    def restore(self) -> None:
        """Put the held weights back in their place: an update moves it by weight decay and momentum, too."""
        with torch.no_grad():
            for one in self._all():
                self._put(one.name, parameters(self.model)[one.name].data, one.head, one.value)

    def without_gradients(self) -> None:
        """Leave the held weights out of the gradients, and so out of their norm."""
        for one in self._all():
            if (gradient := parameters(self.model)[one.name].grad) is not None:
                self._put(one.name, gradient, one.head, torch.zeros_like(one.value))

    def _all(self) -> list[_HeldWeights]:
        return [one for several in self.held.values() for one in several]

    def _held_by(self, clamp: ClampHead) -> list[_HeldWeights]:
        """Return the weights that a clamp holds; keys and values that heads share train on."""
        named, held = parameters(self.model), list[_HeldWeights]()
        for part in _HELD[clamp.kind]:
            if (name := f"blocks.{clamp.layer}.attn.{part}") in named:
                value = in_hooked_layout(self.model, name, named[name].data)[clamp.head].clone()
                is_zero = part in _ZERO.get(clamp.kind, ())
                held.append(_HeldWeights(name, clamp.head, torch.zeros_like(value) if is_zero else value))
        return held

    def _attend(self, clamp: ClampHead, target: Bool[Tensor, "query key"]) -> None:
        """Hold the head at a relation; positions of the model beyond those of the task are free."""
        cfg, held = self.model.cfg, held_attention.held_keys(self.model)
        free = torch.zeros(cfg.n_heads, cfg.n_ctx, cfg.n_ctx, dtype=torch.bool, device=target.device)
        keys = held.get(clamp.layer, free).clone()
        keys[clamp.head] = F.pad(target, (0, cfg.n_ctx - len(target)) * 2)
        held_attention.hold(self.model, held | {clamp.layer: keys})

    def _kick(self, clamp: ClampHead) -> None:
        named = parameters(self.model)
        names = [name for part in _KICKED if (name := f"blocks.{clamp.layer}.attn.{part}") in named]
        name = next((each for each in names if named[each].requires_grad), names[0])
        parameter = named[name]
        weights = in_hooked_layout(self.model, name, parameter.data).clone()
        size = weights[clamp.head * len(weights) // self.model.cfg.n_heads].norm()  # of shared values, its group's
        if not size > 0:
            raise ValueError(
                f"a kick of {head_label(clamp.layer, clamp.head)} pushes by the norm of its {name.rpartition('.')[2]}, "
                f"which is zero at step {clamp.start}: nothing would move. Start at a later step"
            )
        generator = torch.Generator().manual_seed(10**6 * clamp.start + 10**3 * clamp.layer + clamp.head)
        # Entries that are exactly zero are no part of the model: the padding of a wired one.
        direction = torch.randn(weights.shape, generator=generator).to(weights) * (weights != 0)
        weights += direction * (size / direction.norm())
        parameter.data.copy_(in_own_layout(self.model, name, weights))

    def _put(self, name: str, tensor: Tensor, head: int, value: Tensor) -> None:
        """Write a head's part of a parameter, or of its gradient, in the model's own layout."""
        by_head = in_hooked_layout(self.model, name, tensor)
        by_head[head] = value  # of a native model a copy, or a view, of its own layout
        if by_head is not tensor:
            tensor.copy_(in_own_layout(self.model, name, by_head))


def targets(task: AbstractTask, clamps: Iterable[ClampHead]) -> dict[str, Bool[Tensor, "query key"]]:
    """Return the keys that clamps hold heads at, by relation."""
    names = {clamp.relation: None for clamp in clamps if clamp.relation is not None}
    if not names:
        return {}
    sampled, kind = task.sample(_SAMPLE, seed=0).relations, type(task).__name__
    fixed = {name: mask[0] for name, mask in sampled.items() if bool((mask == mask[:1]).all())}
    known = ", ".join(map(repr, fixed)) or "none"
    for name in names:
        if name not in sampled:
            raise ValueError(f"{kind} has no relation {name!r} to hold a head at; those that it can be are {known}")
        if name not in fixed:
            raise ValueError(
                f"the relation {name!r} of {kind} marks other keys in each sequence, and a clamp holds a head at the "
                f"same ones in all: those that it can be held at are {known}"
            )
        if not bool(fixed[name].any()):
            raise ValueError(f"the relation {name!r} of {kind} marks no key that a head could be held at")
    return {name: fixed[name] for name in names}


def _check(model: Model, clamp: ClampHead) -> None:
    cfg = model.cfg
    if is_bridge(model) and not native.is_native(model):
        raise ValueError("clamps hold heads of models of a HookedTransformerConfig, and this is a Hugging Face model")
    check_head(clamp.layer, clamp.head, cfg.n_layers, cfg.n_heads)
    if clamp.kind == "uniform" and cfg.positional_embedding_type in ("alibi", "relative_positional_bias"):
        raise ValueError("scores of ALiBi are not even where queries are zero: clamp another way than uniform")
