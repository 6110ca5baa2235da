"""The forward pass of training: the model's own parameters without hooks, folded and looked up where that is exact."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from stagewise.models import _native as native
from stagewise.models._causal_attention import causal_attention
from stagewise.models._config_fields import HOOKS, TRAINING, WITHOUT_EFFECT, asked_beside
from stagewise.models._first_layer_tables import FirstLayer, attended_by_tables, first_layer, looked_up
from stagewise.models._held_attention import held_keys
from stagewise.models._model import Config, Model
from stagewise.models._parts import TRAINED_ACTIVATIONS, Mlp, Norm
from stagewise.models._weights import parameters

_TOLERANCE = 1e-4
"""Largest difference of logits from the hooked model's: float32 sums taken in another order stay far below it."""

_Read = Callable[[Tensor, Tensor], Tensor]
"""From a weight and a bias to what the layer's input becomes under them."""


class TrainingPass(NamedTuple):
    """A forward pass of training.

    One name gives one order of sums, and so the same bits. `predict` goes from tokens (or vectors), and which
    predictions are scored, to the logits (or outputs) of these. `of` does the same by other parameters, named as in
    `models.parameters`, for `torch.func.vmap` over several models; it is None where the pass is the model itself.
    """

    name: str
    predict: Callable[[Tensor, Bool[Tensor, "batch pos"]], Float[Tensor, "prediction output"]]
    of: Callable[[Mapping[str, Tensor], Tensor, Bool[Tensor, "batch pos"]], Tensor] | None = None


def training_pass(
    model: Model,
    tokens: Int[Tensor, "batch pos"] | Float[Tensor, "batch pos feature"],
    scored: Bool[Tensor, "batch pos"],
    batch_size: int,
) -> TrainingPass:
    """Return the fastest pass to the scored predictions that gives the model's values; where it does not, on a few
    sequences, the model itself. The size of an update chooses the way, which then stays.
    """
    hooked = TrainingPass("hooked", lambda tokens, scored: model(tokens)[scored])
    # Hooks that stay with a model are part of what it computes; with zero weights the comparison below would miss them.
    if not _covers(model) or any(point.fwd_hooks for point in model.hook_dict.values()):
        return hooked
    cfg, is_native, named = model.cfg, native.is_native(model), parameters(model)
    vectors = tokens.is_floating_point()
    source: FirstLayer = "residual stream" if vectors else first_layer(cfg, tokens.shape[1], batch_size)
    way = _Way(cfg, source, tuple(native.attn_scale(model, layer) for layer in range(cfg.n_layers)))

    def of(named: Mapping[str, Tensor], tokens: Tensor, scored: Tensor, way: _Way) -> Tensor:
        return _predictions(way, native.views(named, cfg) if is_native else named, tokens, scored)

    def predict(tokens: Tensor, scored: Tensor) -> Tensor:
        return of(named, tokens, scored, way._replace(held=held_keys(model)))

    with torch.no_grad():
        differences = (predict(tokens, scored) - hooked.predict(tokens, scored)).abs()
    if not bool((differences <= _TOLERANCE).all()):
        return hooked
    # Where every layer is read from tables, the bits are those of versions that projected in one product.
    name = f"fused: {source}{'' if source == 'tables to the outputs' else ', three projections'}"
    # torch's kernel of attention has no rule for vmap on a CPU.
    return TrainingPass(name, predict, partial(of, way=way._replace(by_products=True)))


class _Way(NamedTuple):
    """How a fused pass goes: what the first layer reads, divisors of scores, held keys, plain products or not."""

    cfg: Config
    first_layer: FirstLayer
    scales: tuple[float, ...]
    held: Mapping[int, Bool[Tensor, "head pos pos"]] = MappingProxyType({})
    by_products: bool = False


def _covers(model: Model) -> bool:
    cfg, is_native = model.cfg, native.is_native(model)
    if not is_native and hasattr(model, "original_model"):
        return False  # Hugging Face's parameters have other names
    # Fields decide, not the comparison alone: a soft cap, for instance, does not change the first logits.
    config = native.described(cfg) if is_native else vars(cfg)
    activation = cfg.attn_only or cfg.act_fn in TRAINED_ACTIVATIONS
    positions = cfg.positional_embedding_type in ("standard", "shortformer")
    asked = asked_beside(config, TRAINING | WITHOUT_EFFECT | HOOKS)
    return not asked and activation and positions and cfg.normalization_type in (None, "LN", "LNPre")


def _predictions(way: _Way, weights: Mapping[str, Tensor], tokens: Tensor, scored: Tensor) -> Tensor:
    cfg, W_E, positions = way.cfg, weights["embed.W_E"], weights["pos_embed.W_pos"][: tokens.shape[1]]
    counted = scored.cpu().numpy()  # which takes less time than a tensor of so few numbers
    start = int(counted.any(0).argmax())  # before it, the last layer needs no queries
    if way.first_layer == "tables to the outputs":
        return _rows(_folded(way, weights, tokens, start), counted[:, start:])
    # Shortformer positions never enter the residual stream: each layer adds them to what queries and keys read.
    embedded = tokens @ W_E if tokens.is_floating_point() else F.embedding(tokens, W_E)
    x = embedded if cfg.positional_embedding_type == "shortformer" else embedded + positions
    for layer in range(cfg.n_layers):
        # Later layers read every position of the earlier ones; of the last one only what is scored counts.
        first = start if layer == cfg.n_layers - 1 else 0
        if layer == 0 and way.first_layer == "tables":
            read = x[:, first:] + weights["blocks.0.attn.b_O"]
            x = _by_tables(way, weights, read, tokens, weights["blocks.0.attn.W_O"])
        else:
            x = x[:, first:] + _attention(way, layer, weights, x, tokens, first)
        if layer == cfg.n_layers - 1:
            x = _rows(x, counted[:, start:])
        if not cfg.attn_only:
            mlp = Mlp.of(weights, cfg.act_fn, f"blocks.{layer}.")
            x = x + mlp(_norm(cfg, weights, f"blocks.{layer}.ln2")(x))
    return F.linear(_norm(cfg, weights, "ln_final")(x), weights["unembed.W_U"].T, weights["unembed.b_U"])


def _rows(
    x: Float[Tensor, "batch query out"], counted: Bool[np.ndarray, "batch query"]
) -> Float[Tensor, "prediction out"]:
    if counted.all():
        return x.flatten(0, 1)
    return x.flatten(0, 1)[torch.from_numpy(counted.ravel().nonzero()[0]).to(x.device)]


def _folded(way: _Way, weights: Mapping[str, Tensor], tokens: Tensor, start: int) -> Tensor:
    """Return the logits of one layer without norm and MLP: what its heads write goes through W_U to the outputs."""
    W_E, positions, W_U = weights["embed.W_E"], weights["pos_embed.W_pos"][: tokens.shape[1]], weights["unembed.W_U"]
    bias = weights["blocks.0.attn.b_O"] @ W_U + weights["unembed.b_U"]
    direct = looked_up(W_E, positions[start:], tokens[:, start:], W_U.T, bias)
    return _by_tables(way, weights, direct, tokens, weights["blocks.0.attn.W_O"] @ W_U)


def _by_tables(way: _Way, weights: Mapping[str, Tensor], x: Tensor, tokens: Tensor, write: Tensor) -> Tensor:
    rows = torch.cat([weights["embed.W_E"], weights["pos_embed.W_pos"][: tokens.shape[1]]])
    attention = {name: weights[f"blocks.0.attn.{name}"] for name in ("W_Q", "W_K", "W_V", "b_Q", "b_K", "b_V")}
    return attended_by_tables(x, rows, tokens, attention, write, way.scales[0], way.held.get(0))


def _attention(way: _Way, layer: int, weights: Mapping[str, Tensor], x: Tensor, tokens: Tensor, first: int) -> Tensor:
    """Return the output of a layer's heads at the positions from `first` on."""
    positions = weights["pos_embed.W_pos"][: tokens.shape[1]]
    sources: dict[str, _Read]
    if layer == 0 and way.first_layer == "rows":
        W_E = weights["embed.W_E"]
        read = partial(looked_up, W_E, positions, tokens)
        sources = {"Q": partial(looked_up, W_E, positions[first:], tokens[:, first:]), "K": read, "V": read}
    else:
        normed = _norm(way.cfg, weights, f"blocks.{layer}.ln1")(x)
        keyed = normed + positions if way.cfg.positional_embedding_type == "shortformer" else normed
        linear = F.linear
        sources = {"Q": partial(linear, keyed[:, first:]), "K": partial(linear, keyed), "V": partial(linear, normed)}
    # A product for each: joining the weights for one, and parting their gradients, takes longer than it saves.
    q, k, v = (_projection(weights, f"blocks.{layer}.attn.", letter, source) for letter, source in sources.items())
    z = causal_attention(q, k, v, way.scales[layer], way.held.get(layer), by_products=way.by_products)
    W_O, b_O = weights[f"blocks.{layer}.attn.W_O"], weights[f"blocks.{layer}.attn.b_O"]
    return F.linear(z.transpose(1, 2).flatten(2), W_O.flatten(0, 1).T, b_O)


def _projection(weights: Mapping[str, Tensor], attention: str, letter: str, source: _Read) -> Tensor:
    """Return queries, keys or values [batch head pos d_head]."""
    weight, bias = weights[f"{attention}W_{letter}"], weights[f"{attention}b_{letter}"]
    projected = source(weight.transpose(1, 2).flatten(0, 1), bias.flatten())
    return projected.view(*projected.shape[:2], *bias.shape).transpose(1, 2)


def _norm(cfg: Config, weights: Mapping[str, Tensor], name: str) -> Norm:
    return Norm.of(weights, name, cfg.normalization_type, cfg.eps)
