"""Causal attention of the last queries over all keys: torch's kernel, or plain products where they are faster."""

from functools import lru_cache

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from stagewise.models._held_attention import evenly, of_last

_SHORT = 800
"""Keys times d_head up to which plain products of several queries take less time than torch's kernel on a CPU."""


def causal_attention(
    q: Float[Tensor, "batch head query d_head"],
    k: Float[Tensor, "batch head key d_head"],
    v: Float[Tensor, "batch head key d_head"],
    scale: float,
    held: Bool[Tensor, "head pos pos"] | None = None,
    *,
    by_products: bool = False,
) -> Float[Tensor, "batch head query d_head"]:
    """Return softmax(q k^T / scale) v for the last positions' queries, some held at keys. The way depends on shapes and
    device alone, so that a resumed run takes the same.
    """
    batch, queries, keys = q.shape[0], q.shape[2], k.shape[2]
    # A single query, the last one, sees all keys.
    mask = causal_mask(queries, keys, q) if queries > 1 else q.new_zeros(())
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


def causal_mask(queries: int, keys: int, like: Tensor) -> Float[Tensor, "query key"]:
    """Return the mask added to the scores of the last queries: -inf where a key comes later, else 0."""
    return _mask(queries, keys, like.device, like.dtype)


@lru_cache(maxsize=16)
def _mask(queries: int, keys: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    with torch.inference_mode(False):  # a tensor of inference mode cannot be saved for a gradient later
        return torch.full((queries, keys), -torch.inf, device=device, dtype=dtype).triu(keys - queries + 1)
