"""Figures of Scan and Snap's tables, by hand."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.patches import Rectangle

from stagewise.papers.scan_and_snap._plots import entropy_by_rates, most_attended, recall_by_threshold


def test_bars_count_the_seeds_in_which_a_token_won() -> None:
    winners = pd.DataFrame({"rate": [0.1] * 3 + [0.5] * 3, "seed": [0, 1, 2] * 2, "index": [9, 9, 4, 2, 2, 2]})
    attention = pd.DataFrame(
        [(rate, step, token, token / 190) for rate in (0.1, 0.5) for step in (0, 4, 100) for token in range(25)],
        columns=["rate", "step", "token", "attention"],
    )
    axes = most_attended(winners, attention).axes
    bars = [
        [bar.get_height() for bar in ax.patches if isinstance(bar, Rectangle)]
        for ax in axes
        if ax.get_ylabel() == "seeds"
    ]
    assert bars == [[0, 0, 0, 0, 1, 0, 0, 0, 0, 2], [0, 0, 3, 0, 0, 0, 0, 0, 0, 0]]
    curve = np.asarray(axes[0].get_lines()[0].get_xydata())
    np.testing.assert_allclose(curve, [(token, token / 190) for token in range(20)])  # those of class 0


def test_entropies_have_a_panel_a_size_and_a_curve_a_rate() -> None:
    rows = [(20 * K, K, eta, ratio, K + eta + ratio) for K in (2, 5) for eta in (0.5, 1.0) for ratio in (1, 2, 4)]
    cells = pd.DataFrame(rows, columns=["num_last", "num_next", "eta_z", "ratio", "entropy_mean"]).assign(
        entropy_std=0.1
    )
    panels = entropy_by_rates(cells).axes
    assert [ax.get_title(loc="left") for ax in panels] == ["K = 2 classes", "K = 5 classes"]
    for ax, K in zip(panels, (2, 5), strict=True):
        drawn = {str(bars.get_label()): np.asarray(bars[0].get_ydata()).tolist() for bars in ax.containers}
        assert drawn == {f"{eta:g}": pytest.approx([K + eta + 1, K + eta + 2, K + eta + 4]) for eta in (0.5, 1.0)}


def test_recall_has_a_panel_a_size_and_rate_and_a_line_a_ratio() -> None:
    cells = pd.DataFrame(
        [
            (K, eta, ratio, limit, limit, 0.1)
            for K in (2, 6)
            for eta in (1.0, 2.0)
            for ratio in (1, 2)
            for limit in (0.1, 0.2)
        ],
        columns=["num_next", "eta_z", "ratio", "threshold", "recall_mean", "recall_std"],
    )
    axes = recall_by_threshold(cells).axes
    assert [ax.get_title(loc="left") for ax in axes] == [f"K = {K}, eta_Z = {eta}" for K in (2, 6) for eta in (1, 2)]
    assert {len(ax.containers) for ax in axes} == {2}
