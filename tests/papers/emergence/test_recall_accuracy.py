"""Accuracy of runs of recall over training: when it emerges, and where the runs are."""

import math
from pathlib import Path

import pandas as pd
import pytest

from stagewise.papers.emergence._grids import FigureRequest
from stagewise.papers.emergence._recall_accuracy import accuracies, emerged, steps_to
from stagewise.papers.emergence.recipes import recall_recipe

pytestmark = pytest.mark.usefixtures("unchecked")


def test_the_middle_of_the_steps_is_given_or_never() -> None:
    rows = [("run", "Accuracy", "accuracy", step, value) for step, value in ((0, 0.0), (50, 0.1), (100, 0.95))]
    columns = ["run", "probe", "quantity", "step", "value"]
    table = pd.DataFrame(rows, columns=columns).assign(lo=lambda each: each["value"], hi=lambda each: each["value"])
    assert emerged("steps", "-", table)["ours"] == "75"
    assert emerged("steps", "-", table.iloc[:2])["ours"] == "never"
    assert (steps_to(0.9, table), steps_to(0.96, table)) == (100, math.inf)


def test_each_run_has_a_folder_and_steps_of_its_own(tmp_path: Path) -> None:
    runs = [({"seed": seed}, recall_recipe(2, 8, seed=seed, budget=4)) for seed in (0, 1)]
    request = FigureRequest(tmp_path, "small", {}, workers=1, progress=False)
    tables = accuracies("recall", runs, request, lambda _: None)
    assert [table["step"].tolist() for table in tables] == [[0, 4]] * 2
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {f"recall-seed={n}-budget=4" for n in (0, 1)}
