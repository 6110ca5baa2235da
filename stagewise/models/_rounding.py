"""Whether two ways to the same numbers differ by more than sums in another order explain."""

import torch
from torch import Tensor

SAME = 1e-4
"""Difference over the largest entry that sums in another order explain."""


def same(one: Tensor, other: Tensor, of: Tensor | None = None) -> bool:
    """Whether tensors are equal to rounding, in the scale of `other` or a larger one whose parts cancelled in them."""
    size = other.abs().max() if of is None else torch.maximum(other.abs().max(), of.abs().max())
    return one.shape == other.shape and bool((one - other).abs().max() <= SAME * size)
