"""Figure 7 on a small text: what it writes."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from stagewise.experiments.scan_and_snap.figure_7 import draw_maps, figure_7

pytestmark = pytest.mark.usefixtures("unchecked")


def test_it_writes_the_maps_and_what_they_say(letters: str, tmp_path: Path) -> None:
    printed = figure_7(tmp_path, data=letters, steps=6, progress=False)
    table = pd.read_csv(tmp_path / "probe.csv")
    assert table["step"].tolist() == [0, 2, 4, 6]
    assert "entropy" in printed
    saved = np.load(tmp_path / "maps.npz")
    maps = dict(zip(saved["steps"].tolist(), saved["attention"], strict=True))
    for step, entropy, largest in table[["step", "entropy", "largest"]].itertuples(index=False):
        attention = maps[int(step)]
        np.testing.assert_allclose(attention.sum(1), 1, atol=1e-5)
        rows = [-sum(p * np.log(p) for p in row if p > 0) for row in attention]
        assert np.mean(rows) == pytest.approx(entropy, abs=1e-4)
        assert attention.max(1).mean() == pytest.approx(largest, abs=1e-5)
    assert (tmp_path / "figure_7.png").stat().st_size > 0


def test_a_map_is_drawn_for_every_moment() -> None:
    figure = draw_maps({0: np.eye(3), 5: np.eye(3)})
    assert [ax.get_title(loc="left") for ax in figure.axes[:2]] == ["minibatch 0", "minibatch 5"]


def test_fewer_than_three_minibatches_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 3, got 2"):
        figure_7(tmp_path, steps=2)
