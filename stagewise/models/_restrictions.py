"""Which of a model's parameters are trained, and which numbers of them belong to one head."""

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from stagewise.models import _native as native
from stagewise.models._model import Model
from stagewise.models._weights import in_own_layout, parameters, shapes
from stagewise.models._wrapping import is_bridge, name_of
from stagewise.table import check_head

_PARTS = ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V")
"""A head's weights; those of shared keys and values belong to every head that shares them."""


def trained(model: Model) -> dict[str, nn.Parameter]:
    """Return the parameters that training changes; a bias that a bridge adds to an unembedding is none."""
    named = {name: parameter for name, parameter in parameters(model).items() if parameter.requires_grad}
    if is_bridge(model) and not native.is_native(model):
        wrapped = model.original_model
        with torch.device("meta"):
            plain = type(wrapped)(type(wrapped.config).from_dict(wrapped.config.to_dict()))
        if getattr(plain.get_output_embeddings(), "bias", None) is None:
            added = getattr(model.unembed.original_component, "bias", None)
            return {name: parameter for name, parameter in named.items() if parameter is not added}
    return named


def of_head(model: Model, layer: int, head: int) -> dict[str, Bool[Tensor, "..."]]:
    """Return masks of the numbers of each parameter that belong to one head; the output's bias belongs to none."""
    cfg = model.cfg
    if is_bridge(model) and not native.is_native(model):
        raise ValueError(f"the weights of single heads of {name_of(model)} are not told apart: take the whole model")
    check_head(layer, head, cfg.n_layers, cfg.n_heads)
    shared = cfg.n_heads // (cfg.n_key_value_heads or cfg.n_heads)
    masks = {}
    for name, shape in shapes(model).items():
        part = name.removeprefix(f"blocks.{layer}.attn.")
        if part.lstrip("_") in _PARTS:
            mask = torch.zeros(shape)
            mask[head // shared if part.startswith("_") else head] = 1
            masks[name] = in_own_layout(model, name, mask).bool()
    return masks
