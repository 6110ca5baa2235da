"""Paths made by hand, of which is known what they are: a drift, a random walk, noise about a point."""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from stagewise.checkpoints._sketches import Sketch, WeightPath, common_path, paths_of, sketched

KINDS = ("drift", "walk", "noise")
Series = list[dict[str, Tensor]]


def series(kind: str, n: int = 12, shape: tuple[int, ...] = (30, 40), weights: int = 4, seed: int = 0) -> Series:
    """Return n checkpoints of several weights, each of norm about 1, that move by about a hundredth of it at a step."""
    generator = torch.Generator().manual_seed(seed)
    path = {f"w{k}": _path(kind, n, shape, generator) for k in range(weights)}
    return [{name: weight[step].contiguous() for name, weight in path.items()} for step in range(n)]


def _path(kind: str, n: int, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    def unit(*sizes: int) -> Tensor:
        return torch.randn(*sizes, *shape, generator=generator) / math.sqrt(math.prod(shape))

    start, steps = unit(), 0.01 * unit(n)
    if kind == "drift":
        return start + 0.01 * torch.arange(n).view(n, *(1 for _ in shape)) * unit()
    return start + (steps.cumsum(0) if kind == "walk" else steps)


def sketches_of(checkpoints: Series) -> list[Mapping[str, Sketch]]:
    return [sketched(one) for one in checkpoints]


def common_of(checkpoints: Series) -> tuple[WeightPath, Sequence[WeightPath]]:
    paths = paths_of(sketches_of(checkpoints))
    common = common_path(paths)
    assert common is not None
    return common, paths
