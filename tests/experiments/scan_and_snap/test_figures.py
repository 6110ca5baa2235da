"""The commands of Scan and Snap: what they write, what they say, what they refuse."""

from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from stagewise.checkpoints.checksums import LIST
from stagewise.cli.app import app
from stagewise.experiments.scan_and_snap import figures

pytestmark = pytest.mark.usefixtures("unchecked")


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["run", "scan-and-snap", "--quiet", *arguments])
    return result.exit_code, result.output


@pytest.mark.slow
def test_figure_4_writes_its_tables_and_says_how_much_attention_common_tokens_keep(tmp_path: Path) -> None:
    code, printed = call("--figure", "4", "--folder", str(tmp_path / "run"))
    assert code == 0
    assert "2.1513 -> 2.0925 (step 10)" in printed
    assert "common tokens keep 35.9% of class 0" in printed
    written = {path.name for path in (tmp_path / "run").iterdir()}
    expected = {LIST, "attention.csv", "measurements.parquet", "settings.json", "figure_4.png", "figure_4.svg"}
    assert written == expected
    attention = pd.read_csv(tmp_path / "run" / "attention.csv")
    total = attention.groupby(["run", "step", "class"])["attention"].sum()
    assert total.to_list() == pytest.approx([1.0] * 2 * 51 * 2, abs=1e-5)


def test_figure_5_counts_who_won(tmp_path: Path) -> None:
    code, printed = call("--figure", "5", "--seeds", "2", "--folder", str(tmp_path))
    assert code == 0
    winners = pd.read_csv(tmp_path / "winners.csv")
    assert winners.groupby("rate")["seed"].nunique().to_dict() == {0.1: 2, 0.5: 2, 1.0: 2}
    for rate, own in winners.groupby("rate"):
        (line,) = [line for line in printed.splitlines() if line.startswith(f"Adam, rate {rate:g}:")]
        for index, times in own["index"].value_counts().items():
            assert f"{index} ({times}x)" in line


def test_figure_6_prints_every_cell_that_it_writes(tmp_path: Path) -> None:
    printed = figures.figure_6(tmp_path, n_queries=(1,), seeds=(1, 2), progress=False)
    cells = pd.read_csv(tmp_path / "cells.csv")
    assert list(cells.columns) == ["num_last", "num_next", "eta_z", "ratio", "entropy_mean", "entropy_std"]
    assert len(cells) == 16
    for mean, std in zip(cells["entropy_mean"], cells["entropy_std"], strict=True):
        assert f"{mean:.3f} +- {std:.3f}" in printed
    runs = pd.read_csv(tmp_path / "runs.csv").groupby(["eta_z", "ratio"])["entropy"]
    assert cells["entropy_std"].to_list() == pytest.approx(runs.std(ddof=1).to_list())


def test_attention_is_frozen_where_it_hardly_moves_any_more() -> None:
    change = pd.Series([1.0] * 6 + [0.0] * 6, index=range(2, 26, 2))
    assert figures.frozen_at(change) == 22
    assert figures.frozen_at(pd.Series(1.0, index=range(2, 26, 2))) is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--figure", "3"], "there is no figure 3 here"),
        (["--figure", "4", "--seeds", "3"], "the others none; got 3"),
        (["--figure", "6", "--seeds", "1"], "figure 6 two or more"),
        (["--figure", "6", "--steps", "9"], "only figure 7 reads text and takes a number of steps"),
        (["--figure", "7", "--steps", "2", "--data", "nowhere"], "steps must be at least 3, got 2"),
        (["--figure", "7", "--data", "nowhere"], "nowhere/train.txt"),
        (["--figure", "5", "--fresh"], "only figure 6 has fresh seeds to compare with, got figure 5"),
    ],
    ids=str,
)
def test_what_a_figure_does_not_have_is_refused(arguments: list[str], message: str, tmp_path: Path) -> None:
    code, printed = call(*arguments, "--folder", str(tmp_path / "run"))
    assert code == 2
    assert message in printed
    assert not (tmp_path / "run").exists()
