"""Figure 7 on a small text: what it writes."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from stagewise.checkpoints.series import open_series
from stagewise.papers.scan_and_snap.figure_7 import draw_maps, figure_7, probe_rows

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.mark.slow
def test_it_writes_the_maps_and_what_they_say(letters: str, tmp_path: Path) -> None:
    result = figure_7(tmp_path, data=letters, steps=6, seeds=2, progress=False)
    both = pd.read_csv(tmp_path / "probe.csv")
    assert both[["seed", "step"]].to_numpy().tolist() == [[seed, step] for seed in (1, 2) for step in (0, 2, 4, 6)]
    entropies = result.numbers[result.numbers["quantity"].str.startswith("entropy")]["ours"]
    assert entropies.astype(float).tolist() == pytest.approx(both.groupby("step")["entropy"].mean().tolist(), abs=1e-3)
    table = both[both["seed"] == 1]
    saved = np.load(tmp_path / "maps.npz")
    maps = dict(zip(saved["steps"].tolist(), saved["attention"], strict=True))
    for step, entropy, largest in table[["step", "entropy", "largest"]].itertuples(index=False):
        attention = maps[int(step)]
        np.testing.assert_allclose(attention.sum(1), 1, atol=1e-5)
        rows = [-sum(p * np.log(p) for p in row if p > 0) for row in attention]
        assert np.mean(rows) == pytest.approx(entropy, abs=1e-4)
        assert attention.max(1).mean() == pytest.approx(largest, abs=1e-5)
    assert len(result.figure.axes) == 5
    assert open_series(tmp_path / "seed=1").steps == (0, 1, 2, 3, 4, 5, 6)
    assert not (tmp_path / "seed=2" / "checkpoints").exists()


def test_the_published_maps_stand_beside_those_of_one_layer_alone() -> None:
    table = pd.DataFrame({"step": [0, 500], "entropy": [2.5, 0.8], "largest": [0.2, 0.7], "loss": [10.6, 6.7]})
    assert [row["published"] for row in probe_rows(table)][:3] == ["2.540", "0.18", "10.58 to 10.67"]
    assert {row["published"] for row in probe_rows(table, n_layers=3)} == {"-"}


def test_a_map_is_drawn_for_every_moment() -> None:
    figure = draw_maps({0: np.eye(3), 5: np.eye(3)})
    assert [ax.get_title(loc="left") for ax in figure.axes[:2]] == ["minibatch 0", "minibatch 5"]


def test_fewer_than_three_minibatches_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 3, got 2"):
        figure_7(tmp_path, steps=2)
