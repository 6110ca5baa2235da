"""The section on learning coefficients: there where they were sampled, with what says that chains still moved."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

from stagewise.analysis import measure_run
from stagewise.checkpoints.run_folder import COEFFICIENTS, write
from stagewise.measurement.learning_coefficient import _QUANTITIES
from stagewise.probes import Loss
from stagewise.recipe import Recipe
from stagewise.reporting.page import report
from stagewise.table import declare

pytestmark = pytest.mark.usefixtures("few_sequences", "undrawn", "unchecked")
TITLE = "How degenerate the loss is"


@pytest.fixture
def folder(small_folder: Path, small_recipe: Recipe, tmp_path: Path) -> Path:
    run = Path(shutil.copytree(small_folder, tmp_path / "run"))
    measure_run(small_recipe, run, probes=[Loss()], progress=False)
    return run


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
    assert TITLE not in report(folder).read_text(encoding="utf8")


@pytest.mark.parametrize(("drift", "moved"), [(0.2, False), (3.0, True)])
def test_a_run_with_them_has_one_that_says_whether_chains_moved(drift: float, moved: bool, folder: Path) -> None:
    write(folder / COEFFICIENTS, coefficients(drift).to_parquet)
    page = report(folder).read_text(encoding="utf8")
    assert TITLE in page
    assert ("At 2 of 2 checkpoints the chains still moved (steps 0, 6)" in page) is moved
    assert "Below: of each head" not in page
