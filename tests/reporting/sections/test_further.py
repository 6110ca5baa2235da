"""The sections on what other commands measured."""

import math
import shutil
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from stagewise.analysis import measure_run
from stagewise.checkpoints.run_folder import COEFFICIENTS, COMPARISONS, INTERVENTIONS, write
from stagewise.checkpoints.series import open_series
from stagewise.cli.app import app
from stagewise.measurement.learning_coefficient import _QUANTITIES
from stagewise.measurement.trajectory import measure_trajectory
from stagewise.probes import Loss
from stagewise.recipe import Recipe
from stagewise.reporting.page import report
from stagewise.table import Quantity, declare

pytestmark = pytest.mark.usefixtures("few_sequences", "undrawn", "unchecked")
TITLE = "Checkpoints held against each other"


@pytest.fixture(scope="module")
def measured(
    few_sequences: None, small_folder: Path, small_recipe: Recipe, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    run = Path(shutil.copytree(small_folder, tmp_path_factory.mktemp("measured") / "run"))
    measure_run(small_recipe, run, probes=[Loss()], progress=False)
    return run


@pytest.fixture
def folder(measured: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(measured, tmp_path / "run"))


@pytest.mark.slow
def test_the_comparisons_of_a_run_are_in_its_report(folder: Path) -> None:
    assert TITLE not in report(folder).read_text(encoding="utf8")
    result = CliRunner().invoke(app, ["trajectory", str(folder), "--quiet"])
    assert f"report: {folder / 'report.html'}" in result.output.replace("\n", "")
    page = (folder / "report.html").read_text(encoding="utf8")
    for part in (TITLE, "Linear CKA of the residual stream", "Mean principal angle", "first two principal components"):
        assert part in page, part


def test_rows_of_ones_own_are_shown_beside_them(folder: Path) -> None:
    rows = pd.DataFrame(
        {"run": "run", "step": [0, 6], "probe": "LearningCoefficient", "quantity": "llc", "value": [0.5, 2.0]}
    )
    declare(rows, {"LearningCoefficient": {"llc": Quantity("local learning coefficient")}})
    write(folder / COMPARISONS, rows.to_parquet)
    assert "Local learning coefficient." in report(folder).read_text(encoding="utf8")


def test_a_way_alone_is_shown_alone(folder: Path) -> None:
    write(folder / COMPARISONS, measure_trajectory(open_series(folder), progress=False).to_parquet)
    page = report(folder).read_text(encoding="utf8")
    assert TITLE in page
    assert "Linear CKA" not in page


DEGENERATE = "How degenerate the loss is"


def coefficients(drift: float) -> pd.DataFrame:
    value = {"whole_model": 4.0, "drift": drift}
    rows = pd.DataFrame(
        [
            {"step": step, "quantity": name, "value": value[name], "lo": 3.5, "hi": 4.5}
            for step in (0, 6)
            for name in value
        ]
    ).assign(run="run", probe="LearningCoefficient")
    declare(rows, _QUANTITIES)
    return rows


def test_a_run_without_them_has_no_section_and_misses_none(folder: Path) -> None:
    assert DEGENERATE not in report(folder).read_text(encoding="utf8")


@pytest.mark.one_of(2)
@pytest.mark.parametrize(("drift", "moved"), [(0.2, False), (3.0, True)])
def test_a_run_with_them_has_one_that_says_whether_chains_moved(drift: float, moved: bool, folder: Path) -> None:
    write(folder / COEFFICIENTS, coefficients(drift).to_parquet)
    page = report(folder).read_text(encoding="utf8")
    assert DEGENERATE in page
    assert ("At 2 of 2 checkpoints the chains still moved (steps 0, 6)" in page) is moved
    assert "Below: of each head" not in page


def test_a_report_shows_the_interventions_of_its_run(folder: Path) -> None:
    assert "What a stage needs" not in report(folder).read_text(encoding="utf8")
    row = {"layer": 0, "head": 1, "kind": "out", "step": 2, "transition": "the loss falls", "run": "run"}
    rows = pd.DataFrame(
        [{**row, "probe": "Intervention", "quantity": "delay", "value": math.inf, "lo": 4.0, "hi": math.inf}]
    )
    write(folder / INTERVENTIONS, lambda partial: rows.to_parquet(partial, index=False))
    page = report(folder).read_text(encoding="utf8")
    assert "What a stage needs" in page
    assert "it no longer came, at least n steps later" in page
