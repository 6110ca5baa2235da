"""The section on causes: there where heads were held, and nowhere else."""

import math
import shutil
from pathlib import Path

import pandas as pd
import pytest

from stagewise.analysis import measure_run
from stagewise.checkpoints.run_folder import INTERVENTIONS, write
from stagewise.probes import Loss
from stagewise.recipe import Recipe
from stagewise.reporting.page import report

pytestmark = pytest.mark.usefixtures("few_sequences", "undrawn", "unchecked")


def test_a_report_shows_the_interventions_of_its_run(small_folder: Path, small_recipe: Recipe, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(small_folder, tmp_path / "run"))
    measure_run(small_recipe, folder, probes=[Loss()], progress=False)
    assert "Which head a stage needs" not in report(folder).read_text(encoding="utf8")
    row = {"layer": 0, "head": 1, "kind": "out", "step": 2, "transition": "the loss falls", "run": "run"}
    rows = pd.DataFrame(
        [{**row, "probe": "Intervention", "quantity": "delay", "value": math.inf, "lo": 4.0, "hi": math.inf}]
    )
    write(folder / INTERVENTIONS, lambda partial: rows.to_parquet(partial, index=False))
    page = report(folder).read_text(encoding="utf8")
    assert "Which head a stage needs" in page
    assert "it no longer came, at least n steps later" in page
