"""Figures 6, 11 and 12: every cell is given beside its published number, every curve is drawn."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from stagewise.papers.scan_and_snap._syn_medium_figures import (
    descent_rows,
    difference_rows,
    figure_6,
    figure_recall,
    trend_rows,
)

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.mark.slow
def test_figure_6_gives_every_cell_that_it_writes(tmp_path: Path) -> None:
    result = figure_6(tmp_path, n_queries=(1,), seeds=(1, 2), progress=False)
    assert not result.numbers["quantity"].str.startswith("entropy").any()
    rows = result.cells
    assert rows is not None
    cells = pd.read_csv(tmp_path / "cells.csv")
    assert list(cells.columns) == ["num_last", "num_next", "eta_z", "ratio", "entropy_mean", "entropy_std"]
    assert len(cells) == len(rows) == 16
    for mean, std, given in zip(cells["entropy_mean"], cells["entropy_std"], rows["ours"], strict=True):
        assert given == f"{mean:.3f} +- {std:.3f}"
    published = rows["published"].str.split(" ").str[0].astype(float)
    np.testing.assert_allclose(cells["entropy_mean"], published, atol=0.35)  # two of the ten seeds
    runs = pd.read_csv(tmp_path / "runs.csv").groupby(["eta_z", "ratio"])["entropy"]
    assert cells["entropy_std"].to_list() == pytest.approx(runs.std(ddof=1).to_list())


def test_differences_are_those_from_the_recorded_cells() -> None:
    cells = pd.DataFrame(
        {
            "num_next": [2, 2, 6],
            "eta_z": 0.5,
            "ratio": [1, 2, 1],
            "entropy_mean": [1.975, 2.007, 9.0],
            "entropy_std": 0.03,
        }
    )
    mean, deviation = difference_rows(cells)
    assert mean["quantity"] == "largest difference from the 2 recorded means, nats"
    assert (mean["ours"], deviation["ours"]) == ("0.0040", "0.0020")


def test_trends_are_counted_by_column_and_row() -> None:
    cells = pd.DataFrame(
        [
            (6, eta, ratio, value)
            for eta, own in ((1.0, (3.0, 2.0)), (2.0, (2.0, 2.5)))
            for ratio, value in zip((1, 2), own, strict=True)
        ],
        columns=["num_next", "eta_z", "ratio", "entropy_mean"],
    )
    falls, *_, dips = (row["ours"] for row in trend_rows(cells.assign(entropy_std=0.1)))
    assert (falls, dips) == ("1 of 2", "1 of 2")


@pytest.mark.slow
def test_recall_falls_with_the_threshold_in_every_panel(tmp_path: Path) -> None:
    result = figure_recall(tmp_path, (1,), seeds=(1, 2), progress=False)
    cells = pd.read_csv(tmp_path / "recall.csv")
    assert (cells.groupby(["eta_z", "ratio"])["recall_mean"].diff().dropna() <= 1e-9).all()
    assert len(result.figure.axes) == cells["eta_z"].nunique()
    assert len(result.numbers) == 2
    assert result.cells is not None
    assert len(result.cells) == 16


def test_falls_are_compared_between_ratios_and_rates() -> None:
    drops = {(0.5, 1): 0.3, (0.5, 10): 0.6, (3.0, 1): 0.4, (3.0, 10): 0.2}
    rows = [(2, eta, ratio, t, 1 - drop * t) for (eta, ratio), drop in drops.items() for t in (0, 1)]
    cells = pd.DataFrame(rows, columns=["num_next", "eta_z", "ratio", "threshold", "recall_mean"])
    assert [row["ours"] for row in descent_rows(cells)] == ["1 of 2", "1 of 2"]
