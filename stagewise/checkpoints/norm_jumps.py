"""Checkpoints whose weights jump away from both of their neighbours."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

FACTOR = 2.0
"""A norm that is this many times larger, or smaller, than at both neighbours jumps."""

GONE = 1e-30
"""The norm given to a weight that was positive before and is zero now: its fall exceeds any usual change."""

USUAL = 5.0
"""And by this many times the usual change between neighbours."""


def norm_jumps(norms: Sequence[Mapping[str, float]]) -> dict[int, list[str]]:
    """Return, by the checkpoint's index in the series, the weights whose norm jumps there.

    A norm may double while a model learns; it does not come back at the next checkpoint. The last checkpoint has one
    neighbour only; the first, the initialisation, is expected to differ and is not judged.

    Args:
        norms: of each checkpoint, by the weight's name; a weight that is missing or not finite is not judged, nor one
            that has been zero from the start.

    >>> norm_jumps([{"w": size} for size in (1.0, 1.1, 11.0, 1.3, 1.4)])
    {2: ['w']}
    """
    jumps: dict[int, list[str]] = {}
    names = sorted({name for one in norms for name in one})
    for name in names:
        sizes = np.array([one.get(name, math.nan) for one in norms], dtype=float)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(
                np.where(_has_vanished(sizes), GONE, np.where(np.isfinite(sizes) & (sizes > 0), sizes, np.nan))
            )
        for index in _jumps(logs):
            jumps.setdefault(index, []).append(name)
    return jumps


def _has_vanished(sizes: np.ndarray) -> np.ndarray:
    """Whether each weight is zero now and was not before."""
    vanished: np.ndarray = (sizes == 0) & np.logical_or.accumulate(sizes > 0)
    return vanished


def _jumps(logs: np.ndarray) -> list[int]:
    changes = np.diff(logs)
    if len(changes) < 3:
        return []
    last = len(logs) - 1
    inner = [i for i in range(1, last) if changes[i - 1] * changes[i] < 0 and _stands_out(changes, [i - 1, i])]
    return [*inner, last] if last - 1 not in inner and _stands_out(changes, [last - 1]) else inner


def _stands_out(changes: np.ndarray, indices: Sequence[int]) -> bool:
    others = np.abs(np.delete(changes, indices))
    usual = float(np.median(others[np.isfinite(others)])) if np.isfinite(others).any() else 0.0
    return bool(np.abs(changes[list(indices)]).min() > max(math.log(FACTOR), USUAL * usual))
