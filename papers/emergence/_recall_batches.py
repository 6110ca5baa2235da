"""Figure 4 of the emergence of sparse attention by batch size: the exponent of N_pairs to two thresholds."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from stagewise.papers.emergence._panels import draw_curves, finish, log_log, panels
from stagewise.papers.emergence._runs import accuracy_of
from stagewise.papers.published import Result, number, over_seeds, table_of
from stagewise.plot.axes import ordered_colours

PUBLISHED = 2.25
"""The exponent of N_pairs in the paper's law."""

_THRESHOLDS = {".5": "_50", ".05": "_5"}
"""Accuracies whose times are compared, and the ends of their columns: recall, and the paper's threshold."""


def drawn_by_batch(runs: pd.DataFrame, settings: Sequence[Mapping[str, Any]]) -> Result:
    """Draw accuracy by batch size, the steps to .5 by pairs, and the exponent of N_pairs by batch size.

    The larger the batch, the less noise its gradient has, and the less of the exponent's spread is of the seeds.

    Args:
        runs: a row a run: `n_pairs`, `batch_size`, `seed` and the bounds of its times at each threshold.
        settings: the parameters of each run.

    Source: Zucchet et al. (2025), arXiv:2505.17863, Figure 4, whose batches are of 32.
    """
    figure, (left, middle, right) = panels(3)
    _curves(left, settings)
    _steps(middle, runs)
    _exponents(right, runs)
    return Result(figure, table_of([*exponent_rows(runs), *step_rows(runs)]))


def exponents(runs: pd.DataFrame, low: int, high: int, suffix: str) -> pd.DataFrame:
    """Return of each batch size and seed the exponent of N_pairs between two numbers of pairs: a row a seed.

    Columns `batch_size`, `seed`, `exponent` and `bound`: whether the exponent is at least that, as the run of more
    pairs is censored. A seed whose other run is censored has no row.

    Args:
        runs: as `drawn_by_batch` takes them.
        low: the smaller number of pairs.
        high: the larger one.
        suffix: of the columns of the times, as "_50".
    """
    rows = []
    for (batch, seed), alike in runs.groupby(["batch_size", "seed"]):
        first, last = (_bounds(alike, n, suffix) for n in (low, high))
        if math.isfinite(first[1]):
            bound = math.isinf(last[1])
            times = sum(first) / 2, last[0] if bound else sum(last) / 2
            exponent = math.log(times[1] / times[0]) / math.log(high / low)
            rows.append({"batch_size": batch, "seed": seed, "exponent": exponent, "bound": bound})
    return pd.DataFrame(rows, columns=["batch_size", "seed", "exponent", "bound"])


def _pairs(runs: pd.DataFrame) -> list[int]:
    return sorted({int(n_pairs) for n_pairs in runs["n_pairs"]})


def _bounds(runs: pd.DataFrame, n_pairs: int, suffix: str) -> tuple[float, float]:
    row = runs[runs["n_pairs"] == n_pairs].iloc[0]
    return float(row[f"lo{suffix}"]), float(row[f"hi{suffix}"])


def exponent_rows(runs: pd.DataFrame) -> list[dict[str, str]]:
    """Return the exponents between each two numbers of pairs that follow, by threshold and batch size, as rows."""
    return [
        _exponent_row(f"exponent of N_pairs between {low} and {high}, accuracy {accuracy}, batch {batch}", found)
        for accuracy, suffix in _THRESHOLDS.items()
        for low, high in pairwise(_pairs(runs))
        for batch, found in exponents(runs, low, high, suffix).groupby("batch_size")
    ]


def _exponent_row(what: str, found: pd.DataFrame) -> dict[str, str]:
    if found["bound"].any():
        least = f"at least {found['exponent'].min():.2f}"
        return number(what, str(PUBLISHED), least, remark=f"{found['bound'].sum()} of {len(found)} seeds censored")
    return over_seeds(what, str(PUBLISHED), found["exponent"].to_numpy())


def step_rows(runs: pd.DataFrame) -> list[dict[str, str]]:
    """Return the steps to accuracy .5 of every seed, a row a setting."""
    rows = []
    for (n_pairs, batch), seeds in runs.groupby(["n_pairs", "batch_size"]):
        times = ", ".join(_time(row["lo"], row["hi"]) for _, row in seeds.sort_values("seed").iterrows())
        rows.append(number(f"steps to accuracy .5, {n_pairs} pairs, batch {batch}, by seed", "-", times))
    return rows


def _time(lo: float, hi: float) -> str:
    return f"> {lo:g}" if math.isinf(hi) else f"{(lo + hi) / 2:g}"


def _curves(ax: Axes, settings: Sequence[Mapping[str, Any]]) -> None:
    """Draw accuracy over training of the most pairs, the first seed, a curve a batch size."""
    n_pairs, seed = max(each["n_pairs"] for each in settings), settings[0]["seed"]
    shown = [each for each in settings if (each["n_pairs"], each["seed"]) == (n_pairs, seed)]
    draw_curves(ax, [(f"batches of {each['batch_size']}", accuracy_of(each)) for each in shown])
    finish(ax, f"{n_pairs} pairs, {settings[0]['n_tokens']} tokens", ylabel="test accuracy", ylim=(0, 1))


def _steps(ax: Axes, runs: pd.DataFrame) -> None:
    """Draw the steps to accuracy .5 against N_pairs, a mark a seed that reached it, lines of the medians."""
    colours = ordered_colours(sorted(runs["batch_size"].unique()))
    reached = runs[np.isfinite(runs["hi"])]
    for batch, rows in reached.assign(steps=(reached["lo"] + reached["hi"]) / 2).groupby("batch_size"):
        line = rows.groupby("n_pairs")["steps"].median()
        ax.plot(rows["n_pairs"], rows["steps"], "o", color=colours[batch], markersize=4)
        ax.plot(line.index, line, color=colours[batch], label=f"batches of {batch}")
    log_log(ax, runs["n_pairs"])
    finish(ax, "marks: seeds; lines: medians", xlabel="N_pairs", ylabel="steps to accuracy .5")


def _exponents(ax: Axes, runs: pd.DataFrame) -> None:
    """Draw the exponents between the fewest and the most pairs by batch size, a mark a seed, a line the means."""
    sizes, colours = _pairs(runs), ordered_colours(list(_THRESHOLDS))
    for (accuracy, suffix), mark in zip(_THRESHOLDS.items(), "os", strict=True):
        found = exponents(runs, sizes[0], sizes[-1], suffix)
        means = found.groupby("batch_size")["exponent"].mean()
        ax.plot(found["batch_size"], found["exponent"], mark, color=colours[accuracy], markersize=4)
        ax.plot(means.index, means, color=colours[accuracy], label=f"to accuracy {accuracy}")
    ax.axhline(PUBLISHED, color="#888888", linestyle="--", linewidth=0.9, label="published")
    batches = sorted(runs["batch_size"].unique())
    ax.set_xscale("log")
    ax.set_xticks(batches, [str(batch) for batch in batches])
    ax.set_xticks([], minor=True)
    title = f"{sizes[0]} to {sizes[-1]} pairs; marks: seeds; lines: means"
    finish(ax, title, xlabel="batch size, sequences", ylabel="exponent of N_pairs")
