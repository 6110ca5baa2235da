"""The section on checkpoints held against each other: there where they were, and nowhere else."""

import shutil
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from stagewise.analysis import measure_run
from stagewise.checkpoints.run_folder import COMPARISONS, write
from stagewise.checkpoints.series import open_series
from stagewise.cli.app import app
from stagewise.measurement.trajectory import measure_trajectory
from stagewise.probes import Loss
from stagewise.recipe import Recipe
from stagewise.reporting.page import report
from stagewise.table import Quantity, declare

pytestmark = pytest.mark.usefixtures("few_sequences", "undrawn", "unchecked")
TITLE = "Checkpoints held against each other"


def test_the_comparisons_of_a_run_are_in_its_report(small_folder: Path, small_recipe: Recipe, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(small_folder, tmp_path / "run"))
    measure_run(small_recipe, folder, probes=[Loss()], progress=False)
    assert TITLE not in report(folder).read_text(encoding="utf8")
    result = CliRunner().invoke(app, ["trajectory", str(folder), "--quiet"])
    assert f"report: {folder / 'report.html'}" in result.output.replace("\n", "")
    page = (folder / "report.html").read_text(encoding="utf8")
    for part in (TITLE, "Linear CKA of the residual stream", "Mean principal angle", "first two principal components"):
        assert part in page, part


def test_rows_of_ones_own_are_shown_beside_them(small_folder: Path, small_recipe: Recipe, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(small_folder, tmp_path / "run"))
    measure_run(small_recipe, folder, probes=[Loss()], progress=False)
    rows = pd.DataFrame(
        {"run": "run", "step": [0, 6], "probe": "LearningCoefficient", "quantity": "llc", "value": [0.5, 2.0]}
    )
    declare(rows, {"LearningCoefficient": {"llc": Quantity("local learning coefficient")}})
    write(folder / COMPARISONS, rows.to_parquet)
    assert "Local learning coefficient." in report(folder).read_text(encoding="utf8")


def test_a_way_alone_is_shown_alone(small_folder: Path, small_recipe: Recipe, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(small_folder, tmp_path / "run"))
    measure_run(small_recipe, folder, probes=[Loss()], progress=False)
    write(folder / COMPARISONS, measure_trajectory(open_series(folder), progress=False).to_parquet)
    page = report(folder).read_text(encoding="utf8")
    assert TITLE in page
    assert "Linear CKA" not in page
