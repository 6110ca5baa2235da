"""Figures 13 to 15 of the emergence of sparse attention: layers and heads, the task's variants, SGD against Adam."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from stagewise.papers.emergence._grids import FigureRequest
from stagewise.papers.emergence._numbers import law_numbers, law_of, mean_times, published_time, ratio_number
from stagewise.papers.emergence._panels import draw_law, panels, put_above
from stagewise.papers.emergence._regression import draw_losses, regression_runs, regression_setting
from stagewise.papers.published import Result, table_of
from stagewise.sweeping import parameter_grid

TASKS: dict[str, tuple[dict[str, Any], str]] = {
    "mark, random position": ({"positions": "random", "marked": True}, "1.43 d^1.31 T^.58 (R2 .998)"),
    "mark, fixed position": ({"positions": "fixed", "marked": True}, "4.20 d^1.22 T^.29 (R2 .996)"),
    "no mark, fixed position": ({"positions": "fixed", "marked": False}, "4.61 d^1.21 T^.30 (R2 .999)"),
}
"""The variants of the task, their parameters, and the published law of each."""

OPTIMISERS: dict[str, tuple[dict[str, Any], str]] = {
    "SGD": ({"optimiser": "sgd"}, "6.42 d^1.44 T^1.07 (R2 .997)"),
    "Adam": ({"optimiser": "adamw"}, "1.45 d^1.31 T^.57 (R2 .998)"),
}
"""SGD at 5e-3 and Adam at 1e-4, of a model of one layer and one head, and their published laws."""

_SMALL = {"n_layers": 1, "n_heads": 1}


def figure_13(request: FigureRequest) -> Result:
    """Draw the plateau for models of several numbers of layers and heads, and its law.

    Source: Zucchet et al. (2025), arXiv:2505.17863, Figure 13.
    """
    settings = [
        regression_setting(
            request, cell["T"], cell["d"], seed=cell["seed"], n_layers=cell["N_layers"], n_heads=cell["N_heads"]
        )
        for cell in parameter_grid(**request.axes)
    ]
    runs = regression_runs(request, settings)
    law = law_of(runs, ("T", "d", "n_layers", "n_heads"))
    figure, (left, right) = panels(2)
    draw_losses(left, _of_one_size(settings), ("n_layers", "n_heads"))
    put_above(left, f"T = {settings[0]['n_positions']}, d = {settings[0]['d']}")
    draw_law(right, runs, law, "n_layers")
    published = "1.03 d^?.27 T^.70 N_layers^.06 N_heads^.16 (R2 .995)"  # a digit is not legible in the copies we read
    return Result(figure, table_of(law_numbers("T_plateau, steps to loss .1", published, law)))


def figure_14(request: FigureRequest) -> Result:
    """Draw the plateau for three variants of the task: with and without the mark, random and fixed positions.

    Source: Zucchet et al. (2025), arXiv:2505.17863, Figure 14.
    """
    return _each(request, TASKS, {})


def figure_15(request: FigureRequest) -> Result:
    """Draw the plateau of a model of one layer and one head by SGD and by Adam.

    Source: Zucchet et al. (2025), arXiv:2505.17863, Figure 15.
    """
    return _each(request, OPTIMISERS, _SMALL)


def _each(
    request: FigureRequest, variants: Mapping[str, tuple[dict[str, Any], str]], shape: Mapping[str, Any]
) -> Result:
    """Run every variant over the grid; draw its losses' collapse on its own law, and compare the times by size."""
    settings = {
        name: [regression_setting(request, **cell, **shape, **parameters) for cell in parameter_grid(**request.axes)]
        for name, (parameters, _) in variants.items()
    }
    runs = regression_runs(request, [each for of_variant in settings.values() for each in of_variant])
    figure, axes = panels(len(variants))
    rows: list[dict[str, str]] = []
    parts: dict[str, pd.DataFrame] = {}
    for ax, (name, (parameters, published)) in zip(axes, variants.items(), strict=True):
        part = runs[(runs[list(parameters)] == pd.Series(parameters)).all(axis=1)]
        law = law_of(part, ("T", "d"))
        draw_law(ax, part, law, "d")
        put_above(ax, name)
        rows += law_numbers(f"{name}: steps to loss .1", published, law)
        parts[name] = part
    laws = {name: law for name, (_, law) in variants.items()}
    return Result(figure, table_of([*rows, *_compared(parts, laws)]))


def _compared(parts: Mapping[str, pd.DataFrame], laws: Mapping[str, str]) -> list[dict[str, str]]:
    """Return how many times later the first variant comes than each other one, size by size, beside its law's."""
    times = {name: mean_times(runs, ("T", "d")) for name, runs in parts.items()}
    first, *others = times
    rows = []
    for other in others:
        for (T, d), slow in times[first].items():
            by_law, by_other = (published_time(laws[name], {"T": T, "d": d}) for name in (first, other))
            what = f"steps of {first} over {other}, T = {T}, d = {d}"
            rows.append(ratio_number(what, f"{by_law / by_other:.2f} (the laws)", slow, times[other][T, d]))
    return rows


def _of_one_size(settings: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    size = [settings[0][name] for name in ("n_positions", "d", "seed")]
    return [each for each in settings if [each[name] for name in ("n_positions", "d", "seed")] == size]
