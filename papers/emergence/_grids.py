"""The request for a figure of the emergence of sparse attention: its grid of runs, its budget, its folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from stagewise.papers.emergence.recipes import RECALL_BATCH
from stagewise.sweeping import WORKERS

_SETTINGS = ("small", "paper")

_NO_RUNS: dict[str, dict[str, tuple[int | float, ...]]] = {"small": {}, "paper": {}}
"""The grid of a figure of the flow alone, the same in both settings."""

GRIDS: dict[int | str, dict[str, dict[str, tuple[int | float, ...]]]] = {
    1: {
        "small": {"T": (16, 32, 64, 128), "d": (8, 16, 32), "seed": (0, 1, 2, 3, 4)},
        "paper": {"T": (64, 128, 256, 512), "d": (16, 32, 64), "seed": (0, 1, 2, 3, 4)},
    },
    2: {
        "small": {"T": (64, 128), "d": (16, 32), "B": (1, 2, 4, 8), "p": (0, 0.1, 0.2, 0.4), "seed": (0, 1, 2, 3)},
        "paper": {
            "T": (256, 512),
            "d": (16, 32, 64),
            "B": (1, 2, 4, 8, 16),
            "p": (0, 0.1, 0.2, 0.4),
            "seed": (0, 1, 2, 3, 4),
        },
    },
    3: {
        "small": {"T": (32, 64, 128), "d": (8, 16, 32), "B": (1, 2), "p": (0, 0.2, 0.4), "seed": (0,)},
        "paper": {
            "T": (32, 64, 128, 256),
            "d": (16, 32, 64),
            "B": (1, 4),
            "p": (0, 0.1, 0.2, 0.4),
            "seed": (0, 1, 2),
        },
    },
    4: {
        "small": {"N_pairs": (6, 8, 12), "N_tokens": (32, 64), "batch": (RECALL_BATCH,), "seed": (0, 1, 2)},
        "paper": {"N_pairs": (8, 16, 32), "N_tokens": (64, 128, 256), "batch": (RECALL_BATCH,), "seed": (0, 1, 2)},
    },
    5: {
        "small": {"N_pairs": (12,), "N_tokens": (64,), "B": (1, 2, 4), "p": (0, 0.4, 0.8), "seed": (0, 1, 2)},
        "paper": {"N_pairs": (32,), "N_tokens": (256,), "B": (1, 2, 4, 8), "p": (0, 0.2, 0.4, 0.8), "seed": (0, 1, 2)},
    },
    6: _NO_RUNS,
    7: _NO_RUNS,
    8: _NO_RUNS,
    9: {
        "small": {"T": (64,), "d": (64,), "seed": (0, 1, 2, 3, 4)},
        "paper": {"T": (256,), "d": (256,), "seed": (0, 1, 2, 3, 4)},
    },
    10: _NO_RUNS,
    11: {
        "small": {"T": (32,), "d": (8, 16), "B": (1, 4), "seed": (0,)},
        "paper": {"T": (128,), "d": (16, 32, 64), "B": (1, 2, 4, 8, 16), "seed": (0,)},
    },
    12: {
        "small": {"T": (16,), "d": (16,), "p": (0, 0.2, 0.4), "seed": (0, 1, 2)},
        "paper": {"T": (256,), "d": (64,), "p": (0, 0.1, 0.2, 0.4), "seed": (0,)},
    },
    13: {
        "small": {"T": (16,), "d": (8,), "N_layers": (1, 2, 4), "N_heads": (1, 4), "seed": (0, 1, 2)},
        "paper": {
            "T": (32, 64, 128),
            "d": (16, 32, 64),
            "N_layers": (1, 2, 4),
            "N_heads": (1, 2, 4, 8),
            "seed": (0, 1, 2),
        },
    },
    14: {
        "small": {"T": (16, 32), "d": (8, 16, 32), "seed": (0, 1, 2)},
        "paper": {"T": (32, 64, 128, 256), "d": (16, 32, 64), "seed": (0, 1, 2)},
    },
    15: {
        "small": {"T": (8, 16, 32), "d": (4, 8), "seed": (0, 1, 2)},
        "paper": {"T": (32, 64, 128), "d": (16, 32, 64), "seed": (0, 1, 2)},
    },
    16: {
        "small": {"N_pairs": (12,), "N_tokens": (64,), "B": (1, 2, 4), "p": (0, 0.4, 0.8), "seed": (0, 1, 2)},
        "paper": {"N_pairs": (32,), "N_tokens": (256,), "B": (1, 2, 4, 8), "p": (0, 0.2, 0.4, 0.8), "seed": (0, 1, 2)},
    },
    17: {
        "small": {"N_pairs": (12,), "N_tokens": (64,), "seed": (0, 1, 2)},
        "paper": {"N_pairs": (32,), "N_tokens": (256,), "seed": (0,)},
    },
    "values": {
        "small": {"N_pairs": (12,), "N_tokens": (64,), "B": (4, 6), "seed": (0, 1, 2)},
        "paper": {"N_pairs": (32,), "N_tokens": (256,), "B": (4, 8), "seed": (0,)},
    },
    "heads": {
        setting: {"N_pairs": (8,), "N_tokens": (64,), "N_heads": (4,), "seed": (0, 1, 2)} for setting in _SETTINGS
    },
    "schedules": {
        setting: {"T": (64,), "d": (16,), "p": (0, 0.2, 0.4, 0.8), "B": (1, 2), "seed": (0, 1, 2)}
        for setting in _SETTINGS
    },
    "repetition": {
        setting: {"N_pairs": (6,), "N_tokens": (64,), "p": (0, 0.4, 0.8), "B": (1, 2), "seed": (0, 1, 2)}
        for setting in _SETTINGS
    },
    "fixed": {
        setting: {"N_pairs": (8, 16, 32), "N_tokens": (64,), "width": (32,), "seed": (0, 1, 2)} for setting in _SETTINGS
    },
    "embeddings": {
        setting: {"N_pairs": (4,), "N_tokens": (32,), "width": (32,), "seed": (0, 1, 2)} for setting in _SETTINGS
    },
    "norms": {setting: {"N_pairs": (8,), "N_tokens": (64,), "seed": (0, 1, 2)} for setting in _SETTINGS},
}
"""Grids of the runs that are trained, by figure and setting."""

_FRACTIONS = ("B", "p")
"""Axes whose values need not be whole."""


class FigureRequest(NamedTuple):
    """The inputs of a figure: where its runs go, its setting and grid, and how they are trained.

    Args:
        folder: where the runs and their results go.
        setting: "small" or "paper".
        axes: the values of each axis of the grid.
        given: names of the axes whose values differ from the setting's.
        budget: steps of every run; None for the figure's own.
        workers: processes that train at the same time.
        progress: show bars.
    """

    folder: Path
    setting: str
    axes: Mapping[str, tuple[int | float, ...]]
    given: frozenset[str] = frozenset()
    budget: int | None = None
    workers: int = WORKERS
    progress: bool = True


def axes_of(
    figure: int | str, setting: str, given: Mapping[str, Sequence[int | float]]
) -> dict[str, tuple[int | float, ...]]:
    """Return the grid of a figure: the setting's, with the given axes in place of its own.

    Raises:
        ValueError: no such figure, setting or axis, an axis without values or with one twice, a size or seed that is
            no whole number, a negative seed.

    >>> axes_of(4, "small", {"N_pairs": [8], "seed": [0]})
    {'N_pairs': (8,), 'N_tokens': (32, 64), 'batch': (32,), 'seed': (0,)}
    """
    if figure not in GRIDS:
        raise ValueError(f"there is no figure {figure} here; there are {', '.join(map(str, GRIDS))}")
    if setting not in _SETTINGS:
        raise ValueError(f'the setting is "small" or "paper", got {setting!r}')
    axes = dict(GRIDS[figure][setting])
    for name, values in given.items():
        if name not in axes:
            raise ValueError(f"the grid of figure {figure} has no axis {name!r}; it has {', '.join(axes) or 'none'}")
        if not values or len(set(values)) < len(values):
            raise ValueError(f"the axis {name} needs at least one value, none twice; got {list(values)}")
        if name not in _FRACTIONS and not all(isinstance(value, int) for value in values):
            raise ValueError(f"{name} takes whole numbers, got {', '.join(map(str, values))}")
        if name == "seed" and min(values) < 0:
            raise ValueError(f"seeds count from 0, got {min(values)}")
        axes[name] = tuple(values)
    return axes


def read_axes(texts: Sequence[str]) -> dict[str, tuple[int | float, ...]]:
    """Read the axes of a grid as the command line gives them.

    Raises:
        ValueError: one is not NAME=VALUE,VALUE,... with numbers for values, or a name comes twice.

    >>> read_axes(["p=0,0.4", "seed=1"])
    {'p': (0, 0.4), 'seed': (1,)}
    """
    axes: dict[str, tuple[int | float, ...]] = {}
    for text in texts:
        name, _, values = text.partition("=")
        if name in axes:
            raise ValueError(f"the axis {name} is given twice: write all its values in one, as in {name}=8,12")
        try:
            axes[name] = tuple(map(_number, values.split(",")))
        except ValueError as reason:
            raise ValueError(
                f"a grid's axis is written NAME=VALUE,VALUE,... with numbers, as in N_pairs=8,12; got {text!r}"
            ) from reason
    return axes


def _number(text: str) -> int | float:
    value = float(text)
    return int(value) if value.is_integer() else value
