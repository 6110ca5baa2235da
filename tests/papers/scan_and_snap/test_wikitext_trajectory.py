"""The Adam trajectory of the paper's WikiText model on a small text: what it writes, and that it resumes."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from stagewise.checkpoints.series import open_series
from stagewise.papers.scan_and_snap import _wikitext_trajectory as wikitext_trajectory
from stagewise.papers.scan_and_snap._wikitext_model import Baseline, columns, probe_entropy, text_loss
from stagewise.papers.scan_and_snap.wikitext_hooked import baseline
from stagewise.papers.tasks import WikiText

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.mark.slow
def test_it_writes_losses_and_entropies_by_step(letters: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wikitext_trajectory, "ENTROPY_EVERY", 2)
    settings: dict[str, Any] = {"n_layers": 2, "steps": 3, "data": letters, "progress": False}
    result = wikitext_trajectory.trajectories(tmp_path, seeds=2, **settings)
    assert result.numbers["quantity"].tolist()[::3] == [
        "validation loss at minibatch 0, seed 1, nats",
        "entropy of the probe map at minibatch 0, seed 2, nats",
    ]
    table = pd.read_csv(tmp_path / "seed=1" / "trajectory.csv")
    assert table.columns.tolist() == ["step", "loss", "validation_loss", "entropy_0", "entropy_1"]
    assert table["step"].tolist() == [0, 2, 3]
    assert table["validation_loss"].notna().tolist() == [True, False, True]
    ends = [float(pd.read_csv(tmp_path / f"seed={seed}" / "trajectory.csv")["entropy_0"][2]) for seed in (1, 2)]
    assert float(result.numbers["ours"].iloc[-1]) == pytest.approx(sum(ends) / 2, abs=1e-3)
    assert [len(ax.lines) for ax in result.figure.axes] == [2, 2]

    held_out = columns(WikiText(data=letters, tokenizer="basic_english").corpus().ids["validation"], 10)
    model = Baseline(9, n_layers=2, seed=1)  # eight words and <unk>
    assert table["validation_loss"][0] == pytest.approx(text_loss(model, held_out), abs=1e-5)
    assert list(table.loc[0, ["entropy_0", "entropy_1"]]) == pytest.approx(probe_entropy(model, held_out), abs=1e-5)
    again = wikitext_trajectory.trajectories(tmp_path, seeds=2, **settings)
    pd.testing.assert_frame_equal(again.numbers, result.numbers)
    series = open_series(tmp_path / "seed=1")
    assert (series.architecture, series.steps) == (baseline(9, 2), (0, 1, 2, 3))


def test_what_is_recorded_stands_beside_runs_of_its_size_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def trained(_: Path, *, steps: int, **__: object) -> pd.DataFrame:
        ends = {"step": [0, steps], "loss": [None, 6.0], "validation_loss": [10.6, 5.8], "entropy_0": [2.5, 1.7]}
        return pd.DataFrame(ends)

    monkeypatch.setattr(wikitext_trajectory, "trajectory", trained)
    whole = wikitext_trajectory.trajectories(Path(), seeds=3).numbers
    assert whole["published"].tolist() == [
        *("10.622020", "2.495230", "10.662874", "2.494934", "10.654023", "2.541739"),
        *("5.834", "1.650"),
    ]
    assert whole["ours"].tolist()[-2:] == ["5.800", "1.700"]
    assert set(wikitext_trajectory.trajectories(Path(), steps=500, n_layers=2).numbers["published"]) == {"-"}
    with pytest.raises(ValueError, match="take at least one, got 0"):
        wikitext_trajectory.trajectories(Path(), seeds=0)
