"""The device that passes run on, and their numbers: products in bfloat16 where somebody asks for it, else float32."""

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
    """Return a context in which matrix products are taken in the dtype, by torch's autocast, and attention with them.
    Float32 switches off an autocast around it: what is checked to rounding stays so.
    """
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
