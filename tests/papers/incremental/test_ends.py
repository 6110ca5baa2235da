"""Ends of stages over draws of the chain: rows of known ends, and runs too short to end any."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from stagewise.papers.incremental import _ends as ends
from stagewise.papers.incremental._ends import end_rows, figure_ends, recipe_of
from stagewise.recipe import Recipe

pytestmark = pytest.mark.usefixtures("unchecked")


def test_ends_stand_in_steps_and_over_their_mean_and_missing_ones_are_counted() -> None:
    rows = end_rows(np.array([[50.0, 600.0], [100.0, np.nan], [150.0, 800.0]]))
    assert [row["ours"] for row in rows] == ["100", "700", "1", "1", "0.67", "0.67"]
    assert [row["remark"] for row in rows] == ["3 of 3 seeds", "2 of 3 seeds"] * 2 + [""] * 2
    assert rows[2]["interval"] == "[0.525, 1.48]"


def test_a_stage_that_no_run_ends_has_no_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def short(seed: int, setting: str) -> Recipe:
        made = recipe_of(seed, setting)
        return dataclasses.replace(
            made, plan=dataclasses.replace(made.plan, steps=4, batch_size=4, save=frozenset(range(5)))
        )

    monkeypatch.setattr(ends, "recipe_of", short)
    monkeypatch.setattr(ends, "SEQUENCES", 8)
    numbers = figure_ends(tmp_path, seeds=(0, 1), progress=False).numbers
    assert numbers["ours"].tolist() == ["never"] * 4 + ["0.00"] * 2
