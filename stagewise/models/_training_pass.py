"""The forward pass of training: the model's own parameters without hooks, folded and looked up where that is exact."""

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from stagewise.init import Config
from stagewise.models import _native as native
from stagewise.models._config_fields import HOOKS, TRAINING, WITHOUT_EFFECT, asked_beside
from stagewise.models._held_attention import HeldKeys, evenly, held_keys, of_last
from stagewise.models._lean_reading import of_config
from stagewise.models._lean_weights import TRAINED_ACTIVATIONS, Layer
from stagewise.models._model import Model, Tokens
from stagewise.models._weights import parameters

_SHORT = 800
"""Keys times d_head up to which plain products of several queries take less time than torch's kernel on a CPU."""

FirstLayer = Literal["residual stream", "rows", "tables", "tables to the outputs"]
"""Inputs of the first layer: the embedded sequences; the projection of each token and position; tables of scores and of
heads' outputs; tables of these through W_U, where nothing follows."""

_READS = 10
"""How often a row must be read, on average, for its projection to take less time than that of each position."""

_TOLERANCE = 1e-4
"""Largest difference of logits from the hooked model's: float32 sums taken in another order stay far below it."""


def causal_attention(
    q: Float[Tensor, "batch head query d_head"],
    k: Float[Tensor, "batch head key d_head"],
    v: Float[Tensor, "batch head key d_head"],
    scale: float,
    held: Bool[Tensor, "head pos pos"] | None = None,
    *,
    by_products: bool = False,
) -> Float[Tensor, "batch head query d_head"]:
    """Return softmax(q k^T / scale) v for the last positions' queries, in a way that shapes and device alone decide."""
    batch, queries, keys = q.shape[0], q.shape[2], k.shape[2]
    # A single query, the last one, sees all keys.
    mask = causal_mask(queries, keys, q.device, q.dtype) if queries > 1 else q.new_zeros(())
    if held is not None:
        scores = evenly(q @ k.transpose(2, 3) / scale + mask, of_last(held, queries, keys))
        return scores.softmax(-1) @ v
    # Mask, scale and product in one call: on short sequences calls cost more than numbers.
    if by_products or (q.device.type == "cpu" and queries > 1 and keys * q.shape[3] <= _SHORT):
        scores = torch.baddbmm(mask, q.flatten(0, 1), k.flatten(0, 1).transpose(1, 2), alpha=1 / scale)
        return (scores.softmax(-1) @ v.flatten(0, 1)).view(batch, -1, queries, v.shape[3])
    # The kernel skips hidden keys only where it makes the mask itself.
    if queries == keys:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1 / scale)
    return F.scaled_dot_product_attention(q, k, v, mask if queries > 1 else None, scale=1 / scale)


@lru_cache(maxsize=16)
def causal_mask(queries: int, keys: int, device: torch.device, dtype: torch.dtype) -> Float[Tensor, "query key"]:
    """Return the mask added to the scores of the last queries: -inf where a key comes later, else 0."""
    with torch.inference_mode(False):  # a tensor of inference mode cannot be saved for a gradient later
        return torch.full((queries, keys), -torch.inf, device=device, dtype=dtype).triu(keys - queries + 1)


def first_layer(cfg: Config, length: int, batch_size: int) -> FirstLayer:
    """Choose by the shapes what the first layer of a model that reads tokens is computed from."""
    plain = cfg.normalization_type is None and cfg.positional_embedding_type == "standard"
    if not plain or _READS * cfg.d_vocab > batch_size * length:
        return "residual stream"
    narrow = cfg.d_vocab + length <= 2 * cfg.d_head  # a row of scores, by token and position, beside a query
    if narrow and cfg.attn_only and cfg.n_layers == 1 and cfg.d_vocab_out <= cfg.d_head:
        return "tables to the outputs"
    return "tables" if narrow and cfg.d_model <= cfg.d_head else "rows"


def looked_up(
    W_E: Float[Tensor, "token model"],
    positions: Float[Tensor, "pos model"],
    tokens: Int[Tensor, "batch pos"],
    weight: Float[Tensor, "out model"],
    bias: Float[Tensor, " out"],
) -> Float[Tensor, "batch pos out"]:
    """Return F.linear of the embedded tokens, from the map of every token and of every position, once each."""
    return F.embedding(tokens, F.linear(W_E, weight)) + F.linear(positions, weight, bias)


def attended_by_tables(
    x: Float[Tensor, "batch query out"],
    rows: Float[Tensor, "symbol model"],
    tokens: Int[Tensor, "batch key"],
    attention: Mapping[str, Tensor],
    write: Float[Tensor, "head d_head out"],
    scale: float,
    held: Bool[Tensor, "head pos pos"] | None = None,
) -> Float[Tensor, "batch query out"]:
    """Return x plus what the heads write at the last positions, from tables of scores and of written values.

        score_ij = s(t_i, t_j) + s(t_i, j) + s(i, t_j) + s(i, j),   s(a, b) = (e_a W_Q) . (e_b W_K) / scale
        written_i = sum_h sum_j softmax(score)_ij (u(t_j) + u(j)),   u(a) = e_a W_V write

    The same as projecting the embedding e_t + e_i, in another order of sums. `rows` holds e_a of every token, then of
    every position; the queries of x are the last positions, those of `held` all of them.
    """
    keys, queries = tokens.shape[1], x.shape[1]
    vocabulary, first = len(rows) - keys, keys - queries
    # Every score and value is a sum over a few symbols: products of all symbols once, then rows and columns picked.
    q, k, v = (_projected(rows, attention[f"W_{name}"], attention[f"b_{name}"], vocabulary) for name in "QKV")
    scores, values = (q @ k.transpose(1, 2) / scale).transpose(0, 1), v @ write
    # Added to the few rows of the table, the mask costs nothing.
    mask = causal_mask(queries, keys, x.device, x.dtype)
    of_positions = scores[vocabulary + first :] + F.pad(mask, (vocabulary, 0))[:, None]
    of_tokens = F.embedding(tokens[:, first:], scores[:vocabulary].flatten(1))
    by_symbol = of_tokens.view(*x.shape[:2], *scores.shape[1:]) + of_positions
    n_heads = by_symbol.shape[2]
    # Two slices would each have a gradient of the whole, filled with zeros, and their sum.
    of_tokens, of_places = by_symbol.split_with_sizes([vocabulary, keys], -1)
    places = tokens[:, None, None].expand(-1, queries, n_heads, -1)
    scores = of_tokens.gather(-1, places) + of_places
    if held is not None:
        scores = evenly(scores, of_last(held, queries, keys).transpose(0, 1))
    # The rest is what a softmax leaves to do: the values of each key's token and of its position, weighted.
    pattern = scores.softmax(-1)
    if queries == 1:  # what it gives each symbol is less than the values of all keys: a fifth of the time
        of_symbols = torch.cat([torch.zeros_like(of_tokens).scatter_add(-1, places, pattern), pattern], -1)
        return x + of_symbols.flatten(2) @ values.flatten(0, 1)
    head_tokens = tokens[:, None] + vocabulary * torch.arange(n_heads, device=tokens.device)[:, None]
    of_keys = F.embedding(head_tokens, values[:, :vocabulary].flatten(0, 1)) + values[:, vocabulary:]
    return torch.baddbmm(x, pattern.flatten(2), of_keys.flatten(1, 2))


def _projected(rows: Tensor, weight: Tensor, bias: Tensor, vocabulary: int) -> Float[Tensor, "head symbol d_head"]:
    # Every input is the sum of one row of a token and one of a position: the bias belongs to the latter.
    return rows @ weight + F.pad(bias[:, None].expand(-1, len(rows) - vocabulary, -1), (0, 0, vocabulary, 0))


class TrainingPass(NamedTuple):
    """A forward pass of training by the model's own parameters, or others (`of`); one name gives one order of sums."""

    name: str
    predict: Callable[[Tensor, Bool[Tensor, "batch pos"]], Float[Tensor, "prediction output"]]
    of: Callable[[Mapping[str, Tensor], Tensor, Bool[Tensor, "batch pos"]], Tensor] | None = None


def training_pass(model: Model, tokens: Tokens, scored: Bool[Tensor, "batch pos"], batch_size: int) -> TrainingPass:
    """Return the fastest pass that gives the model's values on a few sequences, else the model itself."""
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
    held: HeldKeys = MappingProxyType({})
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
    lean, last = of_config(cfg, weights, way.scales, way.held), cfg.n_layers - 1

    def attention(number: int, x: Tensor) -> tuple[Tensor, Tensor]:
        # Later layers read every position of the earlier ones; of the last one only what is scored counts.
        layer, first = lean.layers[number], start if number == last else 0
        here = x[:, first:]
        if number == 0 and way.first_layer == "tables":
            behind = _by_tables(way, weights, here + layer.bias_o, tokens, layer.W_O)
        else:
            q, k, v = _heads(way, number, layer, weights, x, tokens, first)
            z = causal_attention(q, k, v, way.scales[number], layer.held, by_products=way.by_products)
            behind = layer.behind_attention(here, layer.write(z.transpose(1, 2)))
        return here, _rows(behind, counted[:, start:]) if number == last else behind

    # Shortformer positions never enter the residual stream: each layer adds them to what queries and keys read.
    embedded = tokens @ W_E if tokens.is_floating_point() else F.embedding(tokens, W_E)
    x = embedded if lean.shortformer is not None else embedded + positions
    return lean.unembedded(lean.through_layers(x, attention))


def _rows(x: Tensor, counted: Bool[np.ndarray, "batch query"]) -> Float[Tensor, "prediction out"]:
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


def _heads(
    way: _Way, number: int, layer: Layer, weights: Mapping[str, Tensor], x: Tensor, tokens: Tensor, first: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return a layer's queries from position `first` on, its keys and its values."""
    positions = weights["pos_embed.W_pos"][: tokens.shape[1]]
    if number == 0 and way.first_layer == "rows":
        read = partial(looked_up, weights["embed.W_E"], positions, tokens)
        queries = partial(looked_up, weights["embed.W_E"], positions[first:], tokens[:, first:])
        return layer.q.read(queries), layer.k.read(read), layer.v.read(read)
    normed = layer.ln1(x)
    placed = normed + positions if way.cfg.positional_embedding_type == "shortformer" else normed
    # A product for each: joining the weights for one, and parting their gradients, takes longer than it saves.
    return layer.q(placed[:, first:]), layer.k(placed), layer.v(normed)
