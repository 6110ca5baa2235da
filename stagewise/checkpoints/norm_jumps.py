"""Checkpoints whose weights jump away from both of their neighbours."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

FACTOR = 2.0
"""A norm that is this many times larger, or smaller, than at both neighbours jumps."""

GONE = 1e-30
"""The norm that a weight has which was something and is zero now: its fall stands out of any change."""

USUAL = 5.0
"""And by this many times the usual change between neighbours."""


def norm_jumps(norms: Sequence[Mapping[str, float]]) -> dict[int, list[str]]:
    """Return, by the checkpoint's place in the series, the weights whose norm jumps there.

    A norm may double while a model learns; it does not come back at the next checkpoint. The last checkpoint has one
    neighbour only; the first, the initialisation, is different by right and is not judged.

    Args:
        norms: of each checkpoint, by the weight's name; a weight that is missing or not finite is not judged, nor one
            that has been zero from the start.

    >>> norm_jumps([{"w": size} for size in (1.0, 1.1, 11.0, 1.3, 1.4)])
    {2: ['w']}
    """
    found: dict[int, list[str]] = {}
    names = sorted({name for one in norms for name in one})
    for name in names:
        sizes = np.array([one.get(name, math.nan) for one in norms], dtype=float)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(
                np.where(_has_vanished(sizes), GONE, np.where(np.isfinite(sizes) & (sizes > 0), sizes, np.nan))
            )
        for place in _jumps(logs):
            found.setdefault(place, []).append(name)
    return found


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


def _stands_out(changes: np.ndarray, own: Sequence[int]) -> bool:
    others = np.abs(np.delete(changes, own))
    usual = float(np.median(others[np.isfinite(others)])) if np.isfinite(others).any() else 0.0
    return bool(np.abs(changes[list(own)]).min() > max(math.log(FACTOR), USUAL * usual))
