"""Freezing on WikiText: rows of known attention, and a short run of a small text."""

from pathlib import Path

import pandas as pd
import pytest

from stagewise.papers.scan_and_snap import _wikitext_freezing as freezing
from stagewise.papers.scan_and_snap._wikitext_freezing import figure_freezing, freezing_rows

pytestmark = pytest.mark.usefixtures("unchecked")


def table_of(changes: dict[int, list[float]]) -> pd.DataFrame:
    steps = [50 * i for i in range(len(changes[1]) + 1)]
    return pd.concat(
        pd.DataFrame({"seed": seed, "step": steps, "entropy": 2.0, "change": [float("nan"), *change]})
        for seed, change in changes.items()
    )


def test_attention_that_stops_is_frozen_and_one_that_moves_on_is_not() -> None:
    rows = freezing_rows(table_of({1: [0.5] * 5 + [0.01] * 5, 2: [0.5] * 10}))
    ours = {row["quantity"]: row["ours"] for row in rows}
    assert ours["seed 1: attention frozen from minibatch"] == "500"
    assert ours["seed 2: attention frozen from minibatch"] == "never"
    assert float(ours["longest path of attention over 250 minibatches"]) == pytest.approx(2.5)
    assert float(ours["path at the end over the longest"]) == pytest.approx((0.05 / 2.5 + 1) / 2)


def test_a_run_has_its_looks_and_rows(letters: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freezing, "EVERY", 1)
    result = figure_freezing(tmp_path, "paper", data=letters, steps=6, seeds=1, progress=False)
    table = pd.read_csv(tmp_path / "attention.csv")
    assert table["step"].tolist() == list(range(7))
    assert table["change"].isna().tolist() == [True] + [False] * 6
    assert table["change"].dropna().between(0, 1).all()
    entropies = result.numbers[result.numbers["quantity"].str.startswith("entropy")]["ours"].astype(float)
    assert entropies.iloc[[0, -1]].tolist() == pytest.approx(table["entropy"].iloc[[0, -1]].tolist(), abs=1e-3)
