"""Figures 4 and 5: what is written, and the numbers that are given."""

from pathlib import Path

import pandas as pd
import pytest

from stagewise.checkpoints._checksums import LIST
from stagewise.papers.scan_and_snap._syn_small_figures import figure_4, figure_5, frozen_at, write_settings

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.mark.slow
def test_figure_4_writes_its_tables_and_gives_how_much_attention_common_tokens_keep(tmp_path: Path) -> None:
    result = figure_4(tmp_path, progress=False)
    ours = result.numbers.set_index("quantity")["ours"]
    entropies = [ours[f"eta_Y = 1: distinct-token entropy at step {step}, nats"] for step in (0, 10)]
    assert entropies == ["2.1513", "2.0925"]
    assert ours["eta_Y = 1: common tokens' share of class 0 at the end"] == "35.9%"
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {LIST, "attention.csv", "measurements.parquet", "settings.json"}
    attention = pd.read_csv(tmp_path / "attention.csv")
    total = attention.groupby(["run", "step", "class"])["attention"].sum()
    assert total.to_list() == pytest.approx([1.0] * 2 * 51 * 2, abs=1e-5)


@pytest.mark.slow
def test_figure_5_counts_who_won(tmp_path: Path) -> None:
    result = figure_5(tmp_path, seeds=range(2), progress=False)
    winners = pd.read_csv(tmp_path / "winners.csv")
    assert winners.groupby("rate")["seed"].nunique().to_dict() == {0.1: 2, 0.5: 2, 1.0: 2}
    for rate, own in winners.groupby("rate"):
        rows = result.numbers[result.numbers["quantity"].str.startswith(f"Adam, rate {rate:g}: most")]
        for index, times in own["index"].value_counts().items():
            assert f"{index} ({times}x)" in rows["ours"].item()


def test_attention_is_frozen_where_it_hardly_moves_any_more() -> None:
    change = pd.Series([1.0] * 6 + [0.0] * 6, index=range(2, 26, 2))
    assert frozen_at(change) == 22
    assert frozen_at(pd.Series(1.0, index=range(2, 26, 2))) is None


def test_settings_are_written_with_the_versions(tmp_path: Path) -> None:
    write_settings(tmp_path, {"figure": 4, "ratios": (1, 10)})
    text = (tmp_path / "settings.json").read_text(encoding="utf8")
    assert '"figure": 4' in text
    assert "versions" in text
