"""A few numbers that stand for a weight: enough for distances between all checkpoints without reading them again."""

import functools
import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
import xxhash
from torch import Tensor

NUMBERS = 256
"""Numbers of a sketch: a distance taken from it is off by a factor of about 1 +- 1 / sqrt(2 * 256), 4 %."""

PERIOD = 64 * NUMBERS
"""Entries after which the signs repeat, up to a sign of each repetition."""

SAMPLE = 4096
"""Entries of a weight whose precision is looked at."""

ROUNDED = 0.99
"""Part of the entries that a type holds exactly, of a weight that was rounded to it; of others it is about 0."""

ENOUGH = 64
"""Non-zero entries from which on their rounding is looked at."""

LEVELS = 256
"""Values that a weight of eight bits has at most."""


class Sketch(NamedTuple):
    """The part of a weight that the audit keeps. `numbers` is a linear map that keeps distances, of a small weight its
    entries; `bits` is a hash of the entries as float32; `rounding` says what they were rounded to, if anything.
    """

    numbers: np.ndarray
    norm: float
    size: int
    zeros: int
    bits: int
    uniform: bool
    rounding: str
    kind: str
    shape: tuple[int, ...]


def sketched(state: Mapping[str, Tensor]) -> dict[str, Sketch]:
    """Return the sketch of each weight. Equal weights have equal sketches, in any run of the program."""
    # One block for all: many small ones that are kept among large ones that are not would scatter the heap.
    block = np.empty((len(state), NUMBERS), dtype=np.float32)
    return {
        name: _sketch(weight.detach(), numbers) for (name, weight), numbers in zip(state.items(), block, strict=True)
    }


def _sketch(weight: Tensor, numbers: np.ndarray) -> Sketch:
    real = torch.view_as_real(weight) if weight.is_complex() else weight
    flat = real.to("cpu", torch.float32).reshape(-1).contiguous()
    sample = flat[:: max(1, len(flat) // SAMPLE)]
    norm = float(torch.linalg.vector_norm(flat))
    if not math.isfinite(norm):  # an entry is not, or the squares of large ones are too large
        norm = float(torch.linalg.vector_norm(flat.double()))
    kept = numbers[: len(flat)]
    kept[:] = project(flat)
    return Sketch(
        kept,
        norm,
        len(flat),
        len(flat) - int(torch.count_nonzero(flat)),
        xxhash.xxh3_64_intdigest(flat.numpy().data),
        len(flat) == 0 or bool((flat == flat[0]).all()),
        _rounding(sample[sample != 0]),
        str(weight.dtype),
        tuple(weight.shape),
    )


def _rounding(sample: Tensor) -> str:
    """Return the type that non-zero entries were rounded to; empty where nothing tells."""
    if len(sample) < ENOUGH:
        return ""
    for kind in (torch.bfloat16, torch.float16):
        if float((sample.to(kind).float() == sample).float().mean()) > ROUNDED:
            return str(kind).removeprefix("torch.")
    return f"{LEVELS} values" if len(sample) >= 4 * LEVELS >= 4 * len(torch.unique(sample)) else ""


def project(flat: Tensor) -> np.ndarray:
    """Map entries to `NUMBERS` numbers, their squared differences to the entries' ones in the mean; fewer stay as they
    are.

    The signs are the outer product of two vectors of random signs, so that none but these are kept: number j is the sum
    over the entries i = j mod `NUMBERS` of sign_i entry_i.

    Source: Alon, Matias & Szegedy (1999), The space complexity of approximating the frequency moments, section 2.2.
    """
    if len(flat) <= NUMBERS:
        return flat.numpy().copy()
    rows = math.ceil(len(flat) / PERIOD)
    signs, row_signs = _signs(PERIOD, 0), _signs(rows, 1)
    whole = len(flat) // PERIOD
    summed = torch.zeros(PERIOD)
    if whole:
        summed += row_signs[:whole] @ flat[: whole * PERIOD].view(whole, PERIOD)
    rest = flat[whole * PERIOD :]
    summed[: len(rest)] += row_signs[rows - 1] * rest
    projected: np.ndarray = (summed * signs).view(-1, NUMBERS).sum(0).numpy()
    return projected


@functools.lru_cache(maxsize=64)
def _signs(n: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 2, (n,), generator=generator).float() * 2 - 1
