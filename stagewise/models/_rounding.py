"""Whether two ways to the same numbers differ by more than sums in another order explain."""

import torch
from torch import Tensor

SAME = 1e-4
"""Difference over the largest entry that sums in another order explain."""


def same(one: Tensor, other: Tensor, of: Tensor | None = None) -> bool:
    """Whether two tensors have one shape and are equal to rounding; nan is equal to nothing.

    Args:
        one: a tensor.
        other: whose largest entry is the scale.
        of: a tensor whose parts cancelled in them, where its largest entry is larger.

    >>> one, other = torch.tensor([1.0, 3.0]), torch.tensor([1.0001, 3.0])
    >>> same(one, other), same(one, 2 * other), same(one[:1], other)
    (True, False, False)
    """
    size = other.abs().max() if of is None else torch.maximum(other.abs().max(), of.abs().max())
    return one.shape == other.shape and bool((one - other).abs().max() <= SAME * size)
