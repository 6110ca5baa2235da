"""The device that passes run on, the numbers that they compute in, and whether those are equal to rounding."""

import typing
from typing import Literal

import torch
from torch import Tensor

Dtype = Literal["float32", "bfloat16"]
"""The type of matrix products. Weights, and whatever sums or normalises, are in float32 either way."""

NARROW = (torch.bfloat16, torch.float16)


def check_dtype(dtype: str) -> None:
    """Refuse a dtype that nothing is computed in."""
    if dtype not in (dtypes := typing.get_args(Dtype)):
        raise ValueError(f"dtype is one of {', '.join(dtypes)}, got {dtype!r}")


def products_in(dtype: Dtype, device: str | torch.device) -> torch.autocast:
    """Return a context of products in the dtype, by torch's autocast; float32 switches off an autocast around it."""
    return torch.autocast(torch.device(device).type, torch.bfloat16, enabled=dtype == "bfloat16")


def widened(x: Tensor) -> Tensor:
    """Return numbers of half the width in float32, others as they are: for what is summed or normalised."""
    return x.float() if x.dtype in NARROW else x


def check_device(device: str | torch.device) -> None:
    """Refuse a device that torch does not see here."""
    try:
        torch.empty(0, device=device).cpu()
    except (RuntimeError, AssertionError) as reason:
        line = str(reason).partition("\n")[0]
        raise ValueError(f'torch sees no device "{device}" here ({line}): take another one, as "cpu"') from reason


SAME = 1e-4
"""Difference over the largest entry that sums in another order explain."""


def same(one: Tensor, other: Tensor, of: Tensor | None = None) -> bool:
    """Whether tensors are equal to rounding, in the scale of `other` or a larger one whose parts cancelled in them."""
    size = other.abs().max() if of is None else torch.maximum(other.abs().max(), of.abs().max())
    return one.shape == other.shape and bool((one - other).abs().max() <= SAME * size)
