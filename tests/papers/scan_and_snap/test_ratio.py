"""The ratio of rates of least entropy: read from curves whose least value is known, and from runs."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from stagewise.papers.scan_and_snap import _ratio
from stagewise.papers.scan_and_snap._ratio import RATIOS, figure_ratio, least_ratio

pytestmark = pytest.mark.usefixtures("unchecked")


def test_the_least_value_of_a_parabola_is_found_between_the_ratios() -> None:
    curve = (np.log(RATIOS) - np.log(1.7)) ** 2
    assert least_ratio(RATIOS, curve) == pytest.approx(1.7)


def test_an_entropy_that_only_rises_has_no_threshold() -> None:
    assert np.isnan(least_ratio(RATIOS, np.arange(9.0)))
    assert np.isnan(least_ratio(RATIOS, -np.arange(9.0)))


def test_seeds_without_a_threshold_are_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    curves = {1: (np.log(RATIOS) - 0.5) ** 2, 2: (np.log(RATIOS) - 0.7) ** 2, 3: np.arange(9.0)}
    rows = [
        (6, z, r, seed, h) for z in (1.0, 2.0) for seed, hs in curves.items() for r, h in zip(RATIOS, hs, strict=True)
    ]
    made = pd.DataFrame(rows, columns=["num_next", "eta_z", "ratio", "seed", "entropy"])
    monkeypatch.setattr(_ratio, "ratio_runs", lambda *_: made)
    first = figure_ratio(tmp_path, n_queries=(3,)).numbers.iloc[0]
    assert first["remark"].startswith("2 of 3 seeds")
    assert float(first["ours"]) == pytest.approx(np.exp(0.6), abs=5e-3)


def test_a_large_ratio_ends_denser_than_the_threshold(tmp_path: Path) -> None:
    runs = _ratio.ratio_runs((3,), (1, 2), progress=False)
    mean = runs.groupby(["eta_z", "ratio"])["entropy"].mean().unstack("ratio")
    assert (mean[8.0] > mean[2.0]).all()
