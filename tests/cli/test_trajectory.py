"""`stagewise trajectory` and `relations`: a table and two figures beside the run; lines on its heads."""

import shutil
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from stagewise.cli.app import app
from stagewise.table import declared

pytestmark = pytest.mark.usefixtures("few_sequences", "unchecked")


def test_a_run_gets_a_table_and_two_figures(small_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(small_folder, tmp_path / "run"))
    result = CliRunner().invoke(app, ["trajectory", str(folder), "--quiet"])
    assert result.exit_code == 0, result.output
    table = pd.read_parquet(folder / "tables" / "comparisons.parquet")
    assert declared(table)["LinearCKA"]["alignment"].label == "linear CKA of the residual stream"
    assert set(table["probe"]) == {"LinearCKA", "PrincipalAngles", "Trajectory"}
    assert set(table["step"]) == {0, 2, 4, 6}
    for name in ("alignment.svg", "trajectory.svg"):
        assert (folder / name).read_text(encoding="utf8").rstrip().endswith("</svg>")
        assert name in result.output


@pytest.mark.slow
def test_checkpoints_trained_elsewhere_are_compared_too(checkpoints: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = CliRunner().invoke(app, ["trajectory", str(checkpoints), "--out", str(out), "--quiet"])
    assert result.exit_code == 0, result.output
    assert set(pd.read_parquet(out / "tables" / "comparisons.parquet")["probe"]) >= {"LinearCKA", "Trajectory"}


def test_a_folder_without_checkpoints_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["trajectory", str(tmp_path)])
    assert result.exit_code != 0
    assert "checkpoint" in result.output


def test_the_folder_of_another_source_is_refused(checkpoints: Path, small_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(small_folder, tmp_path / "run"))
    result = CliRunner().invoke(app, ["trajectory", str(checkpoints), "--out", str(folder), "--quiet"])
    assert result.exit_code == 2
    assert "holds measurements of the run in it" in " ".join(result.output.split())
    assert not (folder / "tables" / "comparisons.parquet").exists()


def test_heads_that_nothing_explains_are_counted(small_folder: Path) -> None:
    result = CliRunner().invoke(app, ["relations", str(small_folder), "--step", "0"])
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[-1].startswith("2 heads: ")


def test_a_proposal_is_a_line_with_two_examples(small_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"layer": 0, "head": 1, "relation": "offset 3", "known": False, "explained": 0.8, "chance": 0.1}
    row |= {"error": 0.01, "queries": 0.5, "examples": [(1, 3, 0), (3, 3, 0)]}
    monkeypatch.setattr("stagewise.measurement.relation_search.propose_relations", lambda *_, **__: pd.DataFrame([row]))
    first, last = CliRunner().invoke(app, ["relations", str(small_folder)]).output.splitlines()
    assert first.startswith('L0H1 "offset 3": 0.80 of the attention (chance 0.10, error 0.010) of 50% of the queries; ')
    assert first.count("sequence ") == 2
    assert last == "1 heads: 0 attend to a relation of the batch, 1 to one proposed here, 0 to none that was found"


def test_a_step_that_is_not_there_is_refused(small_folder: Path) -> None:
    result = CliRunner().invoke(app, ["relations", str(small_folder), "--step", "3"])
    assert result.exit_code == 2
    assert "has no step 3" in " ".join(result.output.split())
