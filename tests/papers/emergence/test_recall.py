"""Figures of recall: their runs, and their numbers in words."""

import math
from pathlib import Path

import numpy as np
import pandas as pd

from stagewise.papers.emergence._grids import FigureRequest, axes_of
from stagewise.papers.emergence._recall import (
    _by_seed,
    _late_transfer,
    _median_seeds,
    _ratio,
    recall_settings,
    rise_in_words,
)


def runs(pairs: list[int]) -> pd.DataFrame:
    frame = pd.DataFrame({"n_pairs": pairs, "n_tokens": 64, "seed": [i % 2 for i in range(len(pairs))]})
    return frame.assign(lo=[100.0 * n for n in pairs], hi=[110.0 * n for n in pairs])


def test_exponents_are_told_seed_by_seed() -> None:
    assert _by_seed(runs([4, 4, 8, 8, 16, 16])) == "1.00, 1.00"
    assert _by_seed(runs([4, 4, 8, 8])) == "no law, no law"


def test_ratios_of_censored_times_are_bounds() -> None:
    late, early, never = [400.0, 500.0], [200.0, 250.0], [300.0, math.inf]
    assert _ratio(late, early) == "1.60 to 2.50"
    assert _ratio(never, early) == "at least 1.20"
    assert _ratio(early, never) == "at most 0.83"
    assert _ratio(never, never) == "not known, both censored"


def accuracy(*values: float) -> pd.DataFrame:
    """A curve of accuracy, an evaluation every 100 steps."""
    steps = range(0, 100 * len(values), 100)
    named = {"run": "r", "probe": "Accuracy", "quantity": "accuracy"}
    return pd.DataFrame({**named, "step": steps, "value": values, "lo": np.nan, "hi": np.nan})


def test_what_was_learned_in_training_and_comes_late_on_the_test_is_told() -> None:
    fast, slow = accuracy(0, 0, *[0.95] * 20), accuracy(0, 0, 0.3, 0.4, 0.5, *[0.95] * 17)
    never = accuracy(0, 0, 0.3, 0.4, 0.5, *[0.7] * 17)
    row = _late_transfer("B = 4", [(fast, slow), (fast, never), (slow, slow)])
    assert row["ours"] == "2.00 to 5.00; at least 10.50; 0.80 to 1.25"
    assert row["remark"] == "test accuracy when training's is .9: 0.30, 0.30, 0.95; at the end: 0.95, 0.70, 0.95"
    assert _late_transfer("p = 1", [(accuracy(0, 0.1), accuracy(0, 0.1))])["ours"] == "not known, not learned"


def test_rises_are_told_without_the_censored_ones() -> None:
    rises = pd.DataFrame({"lo_20": [100.0, 300.0, 500.0], "hi_90": [250.0, 700.0, math.inf]})
    assert rise_in_words(rises) == "150 to 400 in 2 of 3 runs; the others are censored"
    assert rise_in_words(rises.iloc[:2]) == "150 to 400 in 2 of 2 runs"
    assert rise_in_words(rises.drop(columns="lo_20")).startswith("no run of 3")
    assert rise_in_words(rises.iloc[2:]) == "no run of 1 rose from below .2 to .9 within its budget"


def test_the_seed_that_is_shown_takes_the_median_time_and_a_censored_one_the_longest() -> None:
    settings = [{"n_pairs": pairs, "n_tokens": 64, "seed": seed} for pairs in (8, 6) for seed in range(3)]
    times = [3.0, 1.0, 2.0, math.inf, 5.0, 4.0]
    frame = pd.DataFrame([{**each, "hi": time} for each, time in zip(settings, times, strict=True)])
    assert [(each["n_pairs"], each["seed"]) for each in _median_seeds(settings, frame)] == [(6, 1), (8, 2)]


def test_every_cell_of_the_grid_is_a_run_within_its_budget(tmp_path: Path) -> None:
    axes = axes_of(4, "small", {"N_pairs": [2, 12], "N_tokens": [64], "seed": [0, 1]})
    settings = recall_settings(FigureRequest(tmp_path, "small", axes))
    cells = [(each["n_pairs"], each["seed"], each["budget"]) for each in settings]
    assert cells == [(2, 0, 4000), (2, 1, 4000), (12, 0, 7400), (12, 1, 7400)]
    given = recall_settings(FigureRequest(tmp_path, "small", axes, budget=30))
    assert {each["budget"] for each in given} == {30}


def test_a_batch_size_is_part_of_a_setting_where_it_is_chosen(tmp_path: Path) -> None:
    chosen = {"N_pairs": [2], "N_tokens": [64], "batch": [8, 32], "seed": [0]}
    settings = recall_settings(FigureRequest(tmp_path, "small", axes_of(4, "small", chosen), frozenset(chosen)))
    assert [each["batch_size"] for each in settings] == [8, 32]
    (default,) = recall_settings(FigureRequest(tmp_path, "small", axes_of(4, "small", chosen | {"batch": [32]})))
    assert "batch_size" not in default
