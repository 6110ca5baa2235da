"""Figure 3 of the emergence of sparse attention: the paper's transformer on sparse regression."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from stagewise.checkpoints.run_folder import read_table
from stagewise.experiments.emergence.grids import FigureRequest
from stagewise.experiments.emergence.numbers import Result, law_of, number
from stagewise.experiments.emergence.panels import draw_curves, draw_law, panels
from stagewise.experiments.emergence.recipes import (
    regression_budget,
    regression_recipe,
    run_path,
    run_regression,
)
from stagewise.sweeping import grid, sweep
from stagewise.table import select

LARGEST = 512
"""Of T * d in the small grid where T and d are not given: one larger run takes as long as half of the others."""


def figure_3(request: FigureRequest) -> Result:
    """Draw the plateaus of the paper's transformer on regression, and their law."""
    settings = _settings(request)
    runs = sweep(
        run_regression,
        settings,
        request.folder,
        workers=request.workers,
        cost=lambda each: each["budget"] * each["n_positions"],
        progress=request.progress,
    )
    runs = runs.rename(columns={"n_positions": "T", "n_copies": "B"})
    law = law_of(runs, ("T / B", "d"))
    figure, (left, right) = panels(2)
    first = [
        each for each in settings if each["n_copies"] == settings[0]["n_copies"] and each["seed"] == settings[0]["seed"]
    ]
    draw_curves(left, [(f"T = {each['n_positions']}, d = {each['d']}", _loss(each)) for each in first])
    left.set(ylabel="test loss", ylim=(0, None), title=f"transformer, regression, B = {settings[0]['n_copies']}")
    draw_law(right, runs, law, "d")
    numbers = [
        number(
            "T_plateau(T / B, d)", "0.76 d^1.29 (T/B)^.80 (R2 .995)", law, f"{len(runs)} runs, {request.setting} grid"
        ),
        number("the same, T and B apart", "-", law_of(runs, ("T", "B", "d"))),
    ]
    for row in runs.query("T == 32 and d == 16 and B == 1").to_dict("records"):
        numbers.append(number("T_plateau(T=32, d=16), steps", "435 (the law)", f"({row['lo']:g}, {row['hi']:g}]"))
    return Result(figure, pd.DataFrame(numbers))


def _settings(request: FigureRequest) -> list[dict[str, Any]]:
    """Return the settings of all runs, each checked: nothing is trained if one is out of range."""
    settings = []
    for cell in grid(**request.axes):
        T, d, B = cell["T"], cell["d"], cell["B"]
        if request.setting == "small" and not {"T", "d"} & request.given and T * d > LARGEST:
            continue
        regression_recipe(T, d, B)
        budget = request.budget or regression_budget(T, d, B)
        every = min(max(10, budget // 50), budget)
        settings.append(
            {
                "runs": str(request.folder / "runs"), "n_positions": T, "d": d, "n_copies": B, "seed": cell["seed"],
                "budget": budget, "every": every,
            }
        )  # fmt: skip
    return settings


def _loss(each: Mapping[str, Any]) -> pd.DataFrame:
    return select(read_table(run_path("regression", **each)), "Loss", "squared_error")
