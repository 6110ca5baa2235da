"""Figures 3, 4 and 5 of the emergence of sparse attention: transformers on regression and on recall."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stagewise.emergence_section import rise
from stagewise.experiments.emergence_recipes import recall_budget, run_path, run_recall, run_regression
from stagewise.experiments.emergence_toy import Result, number
from stagewise.folder import read_table
from stagewise.laws_plot import collapse
from stagewise.palette import ordered_colours
from stagewise.power_law import fit_interval_censored
from stagewise.step_axis import curve
from stagewise.sweeping import sweep
from stagewise.table import select

COMPARED = {"small": (12, 64), "paper": (32, 256)}
"""N_pairs and N_tokens of the runs with repetition."""

REPETITIONS = {
    "small": ((1.0, 0.0), (2.0, 0.0), (4.0, 0.0), (1.0, 0.4), (1.0, 0.8)),
    "paper": ((1.0, 0.0), (2.0, 0.0), (4.0, 0.0), (8.0, 0.0), (1.0, 0.2), (1.0, 0.4), (1.0, 0.8)),
}
"""B and p."""


REGULAR_PAIRS = 8
"""With fewer pairs the small model also finds partial solutions, and its times no longer follow N_pairs."""


def figure_3(folder: Path, setting: str = "small", progress: bool = True) -> Result:
    """Draw the plateaus of the paper's transformer on regression, and their law."""
    small = [(16, 8, 1), (32, 8, 1), (16, 16, 1), (32, 16, 1), (64, 16, 1), (64, 16, 4)]
    full = [(T, d, B) for T in (32, 64, 128, 256) for d in (16, 32, 64) for B in (1, 4)]
    runs_folder = str(folder / "runs")
    settings = [
        {"runs": runs_folder, "n_positions": T, "d": d, "n_copies": B, "seed": 0, "budget": budget, "every": every}
        for T, d, B in (small if setting == "small" else full)
        for budget in [100 * math.ceil(0.05 * (T / B) ** 0.63 * d**1.13)]
        for every in [max(10, budget // 50)]
    ]
    runs = sweep(run_regression, settings, folder, progress=progress)
    runs = runs.rename(columns={"n_positions": "T", "n_copies": "B"})
    law = fit_interval_censored(runs, "T / B, d")
    figure, (left, right) = _panels(2)
    _curves(left, [(_label(each, "n_positions d n_copies"), _regression_loss(each)) for each in settings])
    left.set(ylabel="test loss", ylim=(0, None), title="transformer, sparse regression")
    collapse(runs, law, "d", ax=right)
    at = runs[(runs["T"] == 32) & (runs["d"] == 16)].iloc[0]
    numbers = [
        number("T_plateau(T / B, d)", "0.76 d^1.29 (T/B)^.80 (R2 .995)", law, f"{len(runs)} runs, {setting} grid"),
        number("T_plateau(T=32, d=16), steps", "435 (the law)", f"({at['lo']:g}, {at['hi']:g}]"),
    ]
    return Result(figure, pd.DataFrame(numbers))


def figure_4(folder: Path, setting: str = "small", progress: bool = True) -> Result:
    """Draw accuracy over training for several numbers of pairs, the attention that rises with it, and the law."""
    pairs, tokens = ((6, 8, 12), (32, 64)) if setting == "small" else ((8, 16, 32), (64, 128, 256))
    settings = [
        _recall(folder, setting, n, v, seed=seed)
        for n in pairs
        for v in tokens
        for seed in range(2 if setting == "small" else 3)
    ]
    runs = sweep(run_recall, settings, folder, progress=progress)
    law = fit_interval_censored(runs, "n_tokens, n_pairs")
    figure, (left, middle, right) = _panels(3)
    shown = [each for each in settings if each["n_tokens"] == 64 and each["seed"] == 0]
    _curves(left, [(f"{each['n_pairs']} pairs", _accuracy(each)) for each in shown])
    left.set(ylabel="test accuracy", ylim=(0, 1), title="one copy, 64 tokens")
    rise(_table(shown[-1], "recall"), middle)
    middle.set_title(f"{shown[-1]['n_pairs']} pairs: attention moves with accuracy")
    collapse(runs, law, "n_pairs", ax=right)
    regular = runs[runs["n_pairs"] >= REGULAR_PAIRS]
    numbers = [
        number("T_plateau(N_tokens, N_pairs)", "0.55 N_tokens^.79 N_pairs^2.25 (R2 .982)", law, "ours: to accuracy .5"),
        number("the same, at least 8 pairs", "-", fit_interval_censored(regular, "n_tokens, n_pairs"), "6 are erratic"),
        number("steps from accuracy .2 to .9", "-", rise_in_words(runs), "one abrupt rise"),
    ]
    return Result(figure, pd.DataFrame(numbers))


def figure_5(folder: Path, setting: str = "small", progress: bool = True) -> Result:
    """Draw what repetition in context (B) and across samples (p) does to recall of sequences without it."""
    n_pairs, n_tokens = COMPARED[setting]
    settings = [
        _recall(folder, setting, n_pairs, n_tokens, B, p, seed)
        for B, p in REPETITIONS[setting]
        for seed in range(2 if setting == "small" else 3)
    ]
    runs = sweep(run_recall, settings, folder, progress=progress)
    figure, (left, right) = _panels(2)
    first = [each for each in settings if each["seed"] == 0]
    _curves(left, [(f"B = {each['n_copies']:g}", _accuracy(each)) for each in first if each["p"] == 0])
    _curves(right, [(f"p = {each['p']:g}", _accuracy(each)) for each in first if each["n_copies"] == 1])
    for ax, title in ((left, "repetition in context"), (right, "repetition across samples")):
        ax.set(ylabel="test accuracy, one copy", ylim=(0, 1), title=f"{title}: {n_pairs} pairs, {n_tokens} tokens")
    numbers = [_speed_up(runs, B, p) for B, p in REPETITIONS[setting][1:]]
    return Result(figure, pd.DataFrame(numbers))


def rise_in_words(runs: pd.DataFrame) -> str:
    """Say how long the rise took, at most, in the runs that got there."""
    whole = runs[runs["hi_90"] < math.inf]
    if whole.empty:
        return "no run reached .9 within its budget"
    widths = whole["hi_90"] - whole["lo_20"]
    return f"{widths.min():g} to {widths.max():g} in {len(whole)} of {len(runs)} runs; the others are censored"


def _recall(
    folder: Path, setting: str, n_pairs: int, n_tokens: int, n_copies: float = 1.0, p: float = 0.0, seed: int = 0
) -> dict[str, Any]:
    budget = recall_budget(n_pairs, n_tokens) if setting == "small" else 200_000
    return {
        "runs": str(folder / "runs"), "n_pairs": n_pairs, "n_tokens": n_tokens, "n_copies": n_copies, "p": p,
        "seed": seed, "budget": budget, "setting": setting,
    }  # fmt: skip


def _speed_up(runs: pd.DataFrame, n_copies: float, p: float) -> dict[str, str]:
    """Compare with no repetition, seed by seed; a censored run gives a bound."""
    base, other = (
        runs[(runs["n_copies"] == B) & (runs["p"] == share)].set_index("seed").sort_index()
        for B, share in ((1.0, 0.0), (n_copies, p))
    )
    least, most = base["lo_50"] / other["hi_50"], base["hi_50"] / other["lo_50"]
    published = {(2.0, 0.0): "up to ~4x from B", (1.0, 0.4): "up to ~2x from p"}.get((n_copies, p), "-")
    words = ", ".join(f"{low:.2f} to {high:.2f}" for low, high in zip(least, most, strict=True))
    late = ", ".join(f"({low:g}, {high:g}]" for low, high in zip(other["lo_90"], other["hi_90"], strict=True))
    return number(f"times faster to accuracy .5, B = {n_copies:g}, p = {p:g}", published, words, f".9 at {late}")


def _regression_loss(each: Mapping[str, Any]) -> pd.DataFrame:
    return select(_table(each, "regression"), "Loss", "squared_error")


def _accuracy(each: Mapping[str, Any]) -> pd.DataFrame:
    return select(_table(each, "recall"), "Accuracy", "accuracy")


def _table(each: Mapping[str, Any], kind: str) -> pd.DataFrame:
    return read_table(run_path(each["runs"], kind, {name: value for name, value in each.items() if name != "runs"}))


def _curves(ax: Axes, curves: Sequence[tuple[str, pd.DataFrame]]) -> None:
    colours = ordered_colours([label for label, _ in curves])
    for label, rows in curves:
        curve(ax, rows, label, colours[label])
    _finish(ax)


def _finish(ax: Axes) -> None:
    ax.set(xlabel="optimiser step", xlim=(0, None))
    ax.legend(frameon=False, fontsize=8)
    ax.spines[["top", "right"]].set_visible(False)


def _label(each: Mapping[str, Any], names: str) -> str:
    letters = {"n_positions": "T", "d": "d", "n_copies": "B"}
    return ", ".join(f"{letters[name]} = {each[name]}" for name in names.split())


def _panels(n: int) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(4.6 * n, 3.8), layout="constrained")
    return figure, list(figure.subplots(1, n))
