"""A few numbers that stand for a weight: enough for distances between all checkpoints without reading them again."""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
import xxhash
from torch import Tensor

NUMBERS = 256
"""Numbers of a sketch: a distance taken from it is off by a factor of about 1 +- 1 / sqrt(2 * 256), 4 %."""

PERIOD = 64 * NUMBERS
"""Entries after which the signs repeat, up to a sign of each repetition."""

SMALL = 64
"""Weights of fewer entries are left out of the common path where there are larger ones: their directions are few."""

PRECISION = {"torch.float64": 1e-4, "torch.float32": 1e-4, "torch.float16": 2e-3}
"""Relative changes of a weight that are not taken for changes, by its type; others have bfloat16's."""

COARSE = 1e-2
"""The same of bfloat16 and coarser types, whose rounding changes a weight by up to 0.4 %."""


class Sketch(NamedTuple):
    """The part of a weight that the audit keeps: numbers that keep distances, a hash of its entries as float32."""

    numbers: np.ndarray
    norm: float
    size: int
    bits: int
    uniform: bool
    kind: str
    shape: tuple[int, ...]


Sketches = Mapping[str, Sketch]
"""Those of a checkpoint, by the names of its weights."""


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
    norm = float(torch.linalg.vector_norm(flat))
    if not math.isfinite(norm):  # an entry is not, or the squares of large ones are too large
        norm = float(torch.linalg.vector_norm(flat.double()))
    kept = numbers[: len(flat)]
    kept[:] = project(flat)
    bits, uniform = xxhash.xxh3_64_intdigest(flat.numpy().data), bool((flat == flat[:1]).all())
    return Sketch(kept, norm, len(flat), bits, uniform, str(weight.dtype), tuple(weight.shape))


def project(flat: Tensor) -> np.ndarray:
    """Map entries to `NUMBERS` numbers, squared differences to the entries' ones in the mean; fewer stay as they are.

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
    return np.asarray((summed * signs).view(-1, NUMBERS).sum(0))


@functools.lru_cache(maxsize=64)
def _signs(n: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 2, (n,), generator=generator).float() * 2 - 1


@dataclasses.dataclass(frozen=True, eq=False)
class WeightPath:
    """One weight, or all (no name), over the checkpoints that have it; distances of `numbers` are those of weights."""

    name: str
    rows: np.ndarray
    numbers: np.ndarray
    norms: np.ndarray
    size: int
    precision: float

    def __len__(self) -> int:
        return len(self.rows)

    def strides(self, of: int = 1) -> np.ndarray:
        """Return the distances between each row and the `of`-th next one."""
        return norm(self.numbers[of:] - self.numbers[:-of])

    def moves(self) -> bool:
        """Whether the weight usually changes by more than rounding does."""
        return len(self) > 1 and self.usual_stride() > self.precision * float(self.norms.max())

    def usual_stride(self) -> float:
        """Return the median distance between neighbours."""
        return float(np.median(self.strides()))

    def cosines(self) -> np.ndarray:
        """Return the cosine between each row and the next one; 1 where one of them is zero."""
        lengths, numbers = norm(self.numbers), self.numbers.astype(np.float64)
        products = lengths[:-1] * lengths[1:]
        scalar = np.einsum("sk,sk->s", numbers[:-1], numbers[1:])
        return np.asarray(np.divide(scalar, products, out=np.ones_like(products), where=products > 0))

    def without(self, checkpoints: Sequence[int]) -> "WeightPath":
        """Return the path without some checkpoints."""
        return self.at(self.rows[~np.isin(self.rows, list(checkpoints))])

    def at(self, checkpoints: np.ndarray) -> "WeightPath":
        """Return the path through some of its checkpoints."""
        chosen = np.isin(self.rows, checkpoints)
        if chosen.all():
            return self
        parts = {name: getattr(self, name)[chosen] for name in ("rows", "numbers", "norms")}
        return dataclasses.replace(self, **parts)


def norm(differences: np.ndarray) -> np.ndarray:
    """Return the length of each row."""
    return np.asarray(np.sqrt(np.einsum("...k,...k->...", differences, differences, dtype=np.float64)))


def paths_of(sketches: Sequence[Sketches]) -> list[WeightPath]:
    """Return the path of every weight, from the sketches of each checkpoint."""
    names = dict.fromkeys(name for one in sketches for name in one)
    return [path for name in names if len(path := _path(name, [one.get(name) for one in sketches]))]


def _path(name: str, sketches: Sequence[Sketch | None]) -> WeightPath:
    held = {row: sketch for row, sketch in enumerate(sketches) if sketch is not None}
    shapes = [sketch.shape for sketch in held.values()]
    usual = max(shapes, key=shapes.count)
    chosen = {row: one for row, one in held.items() if one.shape == usual and np.isfinite(one.norm) and one.size}
    numbers, norms = (np.array([getattr(one, name) for one in chosen.values()]) for name in ("numbers", "norm"))
    precision = max((PRECISION.get(one.kind, COARSE) for one in chosen.values()), default=COARSE)
    return WeightPath(
        name, np.array([*chosen], dtype=int), numbers, norms, next((one.size for one in chosen.values()), 0), precision
    )


def common_path(paths: Sequence[WeightPath]) -> WeightPath | None:
    """Join the weights that move into one path of the checkpoints with all, each in units of its usual stride."""
    moving = [path for path in paths if path.moves()]
    longest = max((len(path) for path in moving), default=0)
    moving = [path for path in moving if 2 * len(path) > longest]
    moving = [path for path in moving if path.size >= SMALL] or moving
    if not moving:
        return None
    rows = moving[0].rows
    for path in moving:
        rows = np.intersect1d(rows, path.rows)
    units = [path.usual_stride() * math.sqrt(len(moving)) for path in moving]
    parts = [path.at(rows).numbers / unit for path, unit in zip(moving, units, strict=True)]
    numbers = np.concatenate(parts, axis=1)
    size, precision = sum(path.size for path in moving), max(path.precision for path in moving)
    return WeightPath("", rows, numbers, norm(numbers), size, precision)
