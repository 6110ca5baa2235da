"""The Adam trajectory of the paper's WikiText model on a small text: what it writes, and that it resumes."""

from pathlib import Path

import pandas as pd
import pytest

from stagewise.checkpoints.series import open_series
from stagewise.experiments.scan_and_snap import wikitext_trajectory
from stagewise.experiments.scan_and_snap.wikitext_hooked import baseline
from stagewise.experiments.scan_and_snap.wikitext_model import Baseline, columns, probe_entropy, text_loss
from stagewise.tasks import WikiText

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.mark.slow
def test_it_writes_losses_and_entropies_by_step(letters: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wikitext_trajectory, "ENTROPY_EVERY", 2)
    printed = wikitext_trajectory.trajectory(tmp_path, n_layers=2, steps=3, data=letters, progress=False)
    table = pd.read_csv(tmp_path / "trajectory.csv")
    assert table.columns.tolist() == ["step", "loss", "validation_loss", "entropy_0", "entropy_1"]
    assert table["step"].tolist() == [0, 2, 3]
    assert table["validation_loss"].notna().tolist() == [True, False, True]
    assert "validation_loss" in printed

    held_out = columns(WikiText(data=letters, tokenizer="basic_english").corpus().ids["validation"], 10)
    model = Baseline(9, n_layers=2, seed=1)  # eight words and <unk>
    assert table["validation_loss"][0] == pytest.approx(text_loss(model, held_out), abs=1e-5)
    assert list(table.loc[0, ["entropy_0", "entropy_1"]]) == pytest.approx(probe_entropy(model, held_out), abs=1e-5)
    assert wikitext_trajectory.trajectory(tmp_path, n_layers=2, steps=3, data=letters, progress=False) == printed
    assert open_series(tmp_path).architecture == baseline(9, 2)
    assert open_series(tmp_path).steps == (0, 1, 2, 3)
