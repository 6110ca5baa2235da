"""The first layer of a model without norms, read from tables: there every input is a token's row and a position's."""

from collections.abc import Mapping
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from stagewise.models._causal_attention import causal_mask
from stagewise.models._held_attention import evenly, of_last
from stagewise.models._model import Config

FirstLayer = Literal["residual stream", "rows", "tables", "tables to the outputs"]
"""Inputs of the first layer: the embedded sequences; the projection of each token and position; tables of scores and of
heads' outputs; tables of these through W_U, where nothing follows."""

_READS = 10
"""How often a row must be read, on average, for its projection to take less time than that of each position."""


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
    of_positions = scores[vocabulary + first :] + F.pad(causal_mask(queries, keys, x), (vocabulary, 0))[:, None]
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
