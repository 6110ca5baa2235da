"""Figure 3: which runs it needs."""

from pathlib import Path

import pandas as pd
import pytest

from stagewise.papers.emergence._grids import FigureRequest, axes_of
from stagewise.papers.emergence._regression import LARGEST, _by_range, _settings
from stagewise.papers.emergence.recipes import regression_budget


def test_the_small_grid_leaves_out_what_is_too_large(tmp_path: Path) -> None:
    axes = axes_of(3, "small", {})
    settings = _settings(FigureRequest(tmp_path, "small", axes))
    cells = {(each["n_positions"], each["d"]) for each in settings}
    assert cells == {(T, d) for T in axes["T"] for d in axes["d"] if T * d <= LARGEST}


def test_the_small_grid_has_16_to_128_positions_a_copy_as_the_published_law_has(tmp_path: Path) -> None:
    settings = _settings(FigureRequest(tmp_path, "small", axes_of(3, "small", {})))
    ratios = [each["n_positions"] / each["n_copies"] for each in settings]
    assert (min(ratios), max(ratios)) == (16, 128)


def test_every_run_has_its_budget_and_some_fifty_checkpoints(tmp_path: Path) -> None:
    for each in _settings(FigureRequest(tmp_path, "small", axes_of(3, "small", {}))):
        assert each["budget"] == regression_budget(each["n_positions"], each["d"], each["n_copies"])
        assert each["every"] == max(10, each["budget"] // 50)


def test_a_size_without_a_meaning_is_refused_before_any_run(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"SparseRegression\.d: expected a whole number of at least 1, got 0"):
        _settings(FigureRequest(tmp_path, "small", axes_of(3, "small", {"d": [16, 0]})))


def test_a_bent_law_has_another_exponent_in_each_range() -> None:
    times = {16: 16.0, 32: 32.0, 64: 128.0}
    runs = pd.DataFrame([{"T": T, "B": 1, "d": d, "time": d * time} for T, time in times.items() for d in (8, 16, 32)])
    rows = _by_range(runs.assign(lo=0.95 * runs["time"], hi=1.05 * runs["time"]))
    assert [(row["quantity"], row["ours"]) for row in rows] == [
        ("exponent of T / B between 16 and 32", "1.00"),
        ("exponent of T / B between 32 and 64", "2.00"),
        ("exponent of d between 8 and 16", "1.00"),
        ("exponent of d between 16 and 32", "1.00"),
    ]
