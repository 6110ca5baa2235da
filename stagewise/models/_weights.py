"""A model's parameters by TransformerLens's names: reading them, copying them, and loading saved ones."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from stagewise.models import _held_attention as held_attention
from stagewise.models import _huggingface as huggingface
from stagewise.models import _native as native
from stagewise.models._bridge_loading import is_bridge, load_bridge, whole_state
from stagewise.models._model import Model, bare
from stagewise.table import Head

CONSTANTS = (".mask", ".IGNORE", ".rotary_sin", ".rotary_cos")
"""Buffers that a HookedTransformer's state dict holds beside its weights, and other versions do not."""


def parameters(model: Model) -> dict[str, nn.Parameter]:
    """Return the model's own parameters by TransformerLens's names; a native bridge's are laid out in its own way."""
    return native.parameters(model) if native.is_native(model) else dict(model.named_parameters())


def shapes(model: Model) -> dict[str, torch.Size]:
    """Return the shapes of the parameters, of a native bridge in a HookedTransformer's layout."""
    return {name: in_hooked_layout(model, name, each).shape for name, each in parameters(model).items()}


def put(model: Model, state: Mapping[str, Tensor]) -> None:
    """Copy values in a HookedTransformer's layout into the parameters, in place."""
    with torch.no_grad():
        for name, parameter in parameters(model).items():
            parameter.copy_(in_own_layout(model, name, state[name]))


def in_hooked_layout(model: Model, name: str, weight: Tensor) -> Tensor:
    """Return a parameter, or its gradient, in a HookedTransformer's layout: itself, unless the model is native."""
    return native.hooked(name, weight, model.cfg) if native.is_native(model) else weight


def in_own_layout(model: Model, name: str, weight: Tensor) -> Tensor:
    """Return weights of a HookedTransformer's layout in the model's own: the inverse of `in_hooked_layout`."""
    return native.unhooked(name, weight, model.cfg) if native.is_native(model) else weight


def average_over_heads(model: Model, names: Sequence[str], parted: Collection[Head] = ()) -> None:
    """Replace the gradients of the named parameters [head ...] by their mean over heads, but for those `parted`."""
    named = parameters(model) if names else {}  # which lists all modules, at every step
    _make_alike(model, {name: named[name].grad for name in names}, parted, lambda heads: heads.mean(0))


def keep_heads_alike(model: Model, names: Sequence[str], parted: Collection[Head] = ()) -> None:
    """Set the parameters of all heads but parted ones to the first one's: optimisers round the last ones otherwise."""
    named = parameters(model) if names else {}
    _make_alike(model, {name: named[name].data for name in names}, parted, lambda heads: heads[0].clone())


def _make_alike(
    model: Model, named: Mapping[str, Any], parted: Collection[Head], of_heads: Callable[[Tensor], Tensor]
) -> None:
    for name, values in named.items():
        by_head = in_hooked_layout(model, name, values)
        layer = int(name.split(".")[1])
        alike = [head for head in range(len(by_head)) if (layer, head) not in parted]
        if alike:
            equal = by_head.clone()
            equal[alike] = of_heads(by_head[alike] if parted else by_head)
            values.copy_(in_own_layout(model, name, equal))


def weights(model: Model | nn.Module) -> dict[str, Tensor]:
    """Copy parameters, held keys and saved buffers, without constant masks; a Hugging Face model's by its own names."""
    model = bare(model)
    if native.is_native(model):
        kept: Mapping[str, Tensor] = native.weights(model)
    elif is_bridge(model):
        kept = whole_state(model)
    else:
        kept = dict(model.named_parameters())
        if isinstance(model, nn.Module) and not hasattr(model, "cfg"):
            saved = model.state_dict()
            kept |= {name: buffer for name, buffer in model.named_buffers() if name in saved}
    # Rows one behind another, as files hold them: a bridge's q is a view of a transposed whole.
    copies = {name: weight.detach().clone(memory_format=torch.contiguous_format) for name, weight in kept.items()}
    return copies | held_attention.saved(model)


def is_finite(weight: Tensor) -> bool:
    """Whether no entry is nan or infinity; by their sum where that is finite, which takes a sixteenth of the time."""
    if weight.is_floating_point() and weight.element_size() == 1:  # torch computes nothing of eight bits
        weight = weight.float()
    if not (weight.is_floating_point() or weight.is_complex()):
        return True
    return bool(weight.sum().isfinite()) or bool(weight.isfinite().all())


def without_constants(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Leave out constant buffers, as `IGNORE`, and the keys of clamps, which earlier checkpoints do not have."""
    constants = (*CONSTANTS, held_attention.HELD_KEYS)
    return {name: weight for name, weight in state.items() if not name.endswith(constants)}


def load(model: Model, state: Mapping[str, Tensor]) -> None:
    """Load parameters by any of their names, in place, and hold the heads that the checkpoint holds, and no others."""
    if is_bridge(model) and not native.is_native(model):
        load_bridge(model, state)
        return
    held = held_attention.read(state, model)
    state, expected = native.hooked_state(without_constants(state), model.cfg), shapes(model)
    both = [(name, state[name].shape, shape) for name, shape in expected.items() if name in state]
    unlike = [each for each in both if each[1] != each[2]]
    huggingface.check_fit(state, expected, expected.keys() - state.keys(), state.keys() - expected.keys(), unlike)
    put(model, state)
    loaded = {name: in_hooked_layout(model, name, each) for name, each in parameters(model).items()}
    huggingface.check_held(((name, state[name]) for name in loaded), loaded)
    held_attention.hold(model, held)
