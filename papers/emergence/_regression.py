"""Figures 3, 11 and 12 of the emergence of sparse attention: the paper's transformer on sparse regression."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from stagewise.checkpoints.run_folder import read_table
from stagewise.papers.emergence._grids import FigureRequest
from stagewise.papers.emergence._numbers import (
    law_numbers,
    law_of,
    mean_times,
    published_exponent,
    published_time,
    ratio_number,
)
from stagewise.papers.emergence._panels import draw_curves, draw_law, finish, log_log, panels
from stagewise.papers.emergence._runs import run_path, run_regression, trained_on
from stagewise.papers.emergence.recipes import regression_budget, regression_recipe
from stagewise.papers.power_law import PowerLaw
from stagewise.papers.published import Result, bounds, number, table_of
from stagewise.plot.axes import ordered_colours
from stagewise.sweeping import parameter_grid, sweep
from stagewise.table import select

LARGEST = 1024
"""The largest T * d in the small grid where T and d are not given: larger runs take longer than all of these."""

_TERMS = ("T / B", "d")

_LAW = "0.76 d^1.29 (T/B)^.80 (R2 .995)"


def figure_3(request: FigureRequest) -> Result:
    """Draw the plateaus of the paper's transformer on regression, their law, and the plateau against d by p."""
    copied, special = _settings(request), _special(request)
    runs = regression_runs(request, [*copied, *special])
    plain, shared = runs[runs["p"] == 0], runs[(runs["B"] == 1) & (runs["T"] == runs["T"].min())]
    law = law_of(plain, _TERMS)
    figure, (left, middle, right) = panels(3)
    first = [each for each in copied if (each["n_copies"], each["seed"]) == (copied[0]["n_copies"], copied[0]["seed"])]
    draw_losses(left, first, ("n_positions", "d"))
    left.set_title(f"transformer, regression, B = {copied[0]['n_copies']}", fontsize=9)
    draw_law(middle, plain, law, "d")
    _by_share(right, shared)
    rows = [
        *law_numbers("T_plateau(T / B, d), steps to loss .1", _LAW, law, f"{request.setting} grid"),
        *law_numbers("the same, T and B apart", "-", law_of(plain, ("T", "B", "d"))),
        *_by_range(plain),
        *_over_the_law(plain),
        *law_numbers(
            "the same, steps to loss .4", "-", law_of(plain.assign(lo=plain["lo_80"], hi=plain["hi_80"]), _TERMS)
        ),
    ]
    for row in plain.query("T == 32 and d == 16 and B == 1").to_dict("records"):
        within = f"({row['lo']:g}, {row['hi']:g}]"
        rows.append(number(f"T_plateau(T=32, d=16), steps, seed {row['seed']}", "435 (the law)", _middle(row), within))
    return Result(figure, table_of([*rows, *_speed_ups(shared)]))


def figure_11(request: FigureRequest) -> Result:
    """Draw the transformer's test loss over training, by d without repetition and by B.

    Source: Zucchet et al. (2025), arXiv:2505.17863, Figure 11: T = 128.
    """
    ds, copies, d = request.axes["d"], request.axes["B"], min(request.axes["d"])
    cells = dict.fromkeys([*((each, min(copies)) for each in ds), *((d, B) for B in copies)])
    settings = [
        regression_setting(request, T, each, B, seed=seed)
        for each, B in cells
        for T in request.axes["T"]
        for seed in request.axes["seed"]
    ]
    runs = regression_runs(request, settings)
    figure, (left, right) = panels(2)
    first = [each for each in settings if each["seed"] == settings[0]["seed"]]
    draw_losses(left, [each for each in first if each["n_copies"] == min(copies)], ("n_positions", "d"))
    draw_losses(right, [each for each in first if each["d"] == d], ("n_copies",))
    size = f"T = {settings[0]['n_positions']}"
    for ax, title in ((left, f"{size}, B = {min(copies)}"), (right, f"{size}, d = {d}")):
        ax.set_title(title, fontsize=9)
    return Result(figure, table_of([_time_row(row) for row in runs.to_dict("records")]))


def figure_12(request: FigureRequest) -> Result:
    """Draw the transformer's loss on training and on test sequences, by the share p with the special vector.

    Source: Zucchet et al. (2025), arXiv:2505.17863, Figure 12: T = 256.
    """
    settings = [
        regression_setting(request, T, d, p=p, seed=seed)
        for T in request.axes["T"]
        for d in request.axes["d"]
        for p in request.axes["p"]
        for seed in request.axes["seed"]
    ]
    runs = regression_runs(request, settings)
    figure, (left, right) = panels(2)
    first = [each for each in settings if each["seed"] == settings[0]["seed"]]
    curves = {f"p = {each['p']:g}": trained_on(run_path("regression", **each)) for each in first}
    draw_curves(left, [(label, select(table, "Loss", "squared_error")) for label, table in curves.items()])
    draw_losses(right, first, ("p",))
    for ax, title in ((left, "on training sequences"), (right, "on test sequences (p = 0)")):
        finish(ax, f"T = {first[0]['n_positions']}, d = {first[0]['d']}, {title}", ylabel="loss", ylim=(0, None))
    rows = [_time_row(row, "_80", "p") for row in runs.to_dict("records")]
    return Result(figure, table_of([*rows, *_speed_ups(runs)]))


def regression_setting(
    request: FigureRequest,
    T: int | float,
    d: int | float,
    B: int | float = 1,
    p: int | float = 0,
    seed: int | float = 0,
    **variant: Any,
) -> dict[str, Any]:
    """Return the setting of a run, checked: nothing is trained if one is out of range."""
    setting = {"n_positions": T, "d": d, "n_copies": B, "p": float(p), "seed": seed, **variant}
    regression_recipe(**setting)
    budget = request.budget or regression_budget(int(T), int(d), int(B), variant.get("optimiser", "adamw"))
    return {
        "runs": str(request.folder / "runs"), **setting, "budget": budget, "every": min(max(10, budget // 50), budget)
    }  # fmt: skip


def regression_runs(request: FigureRequest, settings: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Train and measure every setting; return a row a run with `T`, `B` and the interval of its plateau's end."""
    runs = sweep(
        run_regression,
        settings,
        request.folder,
        workers=request.workers,
        cost=lambda each: each["budget"] * each["n_positions"],
        progress=request.progress,
    )
    return runs.rename(columns={"n_positions": "T", "n_copies": "B"})


def draw_losses(ax: Axes, settings: Sequence[Mapping[str, Any]], names: Sequence[str]) -> None:
    """Draw the test loss of runs over training, named by some of their parameters."""
    words = {"n_positions": "T", "n_copies": "B", "n_layers": "layers", "n_heads": "heads"}
    curves = []
    for each in settings:
        label = ", ".join(f"{words.get(name, name)} = {each[name]:g}" for name in names)
        curves.append((label, select(read_table(run_path("regression", **each)), "Loss", "squared_error")))
    draw_curves(ax, curves)
    ax.set(ylabel="test loss", ylim=(0, None))


def _settings(request: FigureRequest) -> list[dict[str, Any]]:
    axes = {name: request.axes[name] for name in ("T", "d", "B", "seed")}
    return [
        regression_setting(request, **cell)
        for cell in parameter_grid(**axes)
        if request.setting == "paper" or {"T", "d"} & request.given or cell["T"] * cell["d"] <= LARGEST
    ]


def _special(request: FigureRequest) -> list[dict[str, Any]]:
    """Return the runs with repetition across samples: at the smallest T, of every d whose run without it is small."""
    T = min(request.axes["T"])
    return [
        regression_setting(request, T, d, p=p, seed=seed)
        for d in request.axes["d"]
        for p in request.axes["p"]
        for seed in request.axes["seed"]
        if p > 0 and (request.setting == "paper" or T * d <= LARGEST // 2)
    ]


def _by_range(runs: pd.DataFrame) -> list[dict[str, str]]:
    """Return each exponent between each two sizes that follow in the grid: of a power law these agree."""
    rows = []
    for i, term in enumerate(_TERMS):
        sizes = np.asarray(runs.eval(term), float)
        for low, high in pairwise(np.unique(sizes)):
            law = law_of(runs[(sizes == low) | (sizes == high)], _TERMS)
            if isinstance(law, PowerLaw) and law.terms == _TERMS:
                within = bounds(law.lo[1 + i], law.hi[1 + i])
                what = f"exponent of {term} between {low:g} and {high:g}"
                rows.append(number(what, published_exponent(_LAW, term), f"{law.exponents[i]:.2f}", within))
    return rows


def _over_the_law(runs: pd.DataFrame) -> list[dict[str, str]]:
    """Return the least and the largest ratio of a time to that of the published law, for each number of copies."""
    rows = []
    for B, times in runs[runs["hi"] < float("inf")].groupby("B"):
        ratios = (times["lo"] + times["hi"]) / 2 / _published(times["T"], times["d"], B)
        words = f"{ratios.min():.2f} to {ratios.max():.2f}"
        rows.append(number(f"steps over those of the law, B = {B}", "1", words, remark=f"{len(times)} runs"))
    return rows


def _by_share(ax: Axes, runs: pd.DataFrame) -> None:
    """Draw the plateau (steps to loss .4, where the interval ends) against d, a colour a share p."""
    colours = ordered_colours(sorted(runs["p"].unique()))
    for p, rows in runs.groupby("p"):
        line = rows.groupby("d")["hi_80"].mean()
        ax.plot(line.index, line, "o-", color=colours[p], label=f"p = {p:g}", markersize=4)
    log_log(ax, runs["d"])
    finish(ax, f"across samples, T = {runs['T'].min():g}, B = 1", xlabel="d", ylabel="steps to loss .4")


def _speed_ups(runs: pd.DataFrame) -> list[dict[str, str]]:
    """Return how much faster loss .4 comes with p > 0, size by size, seeds averaged; bounds from the evaluations."""
    times = mean_times(runs, ("T", "d", "p"), "_80")
    return [
        ratio_number(f"times faster to loss .4, p = {p:g}, T = {T}, d = {d}", "> 1, more with d", times[T, d, 0], fast)
        for (T, d, p), fast in times.items()
        if p > 0 and (T, d, 0) in times
    ]


def _time_row(row: Mapping[Any, Any], suffix: str = "", by: str = "B") -> dict[str, str]:
    level = ".4" if suffix else ".1"
    what = f"steps to loss {level}, T = {row['T']}, d = {row['d']}, {by} = {row[by]:g}, seed {row['seed']}"
    law = _published(row["T"], row["d"], row["B"])
    lo, hi = row[f"lo{suffix}"], row[f"hi{suffix}"]
    return number(what, "-" if suffix else f"{law:.0f} (the law)", _middle({"lo": lo, "hi": hi}), f"({lo:g}, {hi:g}]")


def _published(T: Any, d: Any, B: Any) -> Any:
    """Return the steps to loss .1 of the published law, of numbers or columns."""
    return published_time(_LAW, {"T / B": T / B, "d": d})


def _middle(row: Mapping[Any, Any]) -> str:
    """Return the middle of the two evaluations between which a time lies."""
    return f"> {row['lo']:g}" if row["hi"] == float("inf") else f"{(row['lo'] + row['hi']) / 2:g}"
