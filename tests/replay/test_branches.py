"""Branches of a run: where they may begin, and one table of all their delays."""

from pathlib import Path

import pandas as pd
import pytest

from stagewise.checkpoints.run_folder import INTERVENTIONS
from stagewise.recipe import Recipe
from stagewise.replay._branches import Parent, _add_to_table
from stagewise.replay.branching import branches_of
from stagewise.table import tidy


@pytest.fixture
def parent(small_folder: Path, small_recipe: Recipe) -> Parent:
    return Parent(small_folder, small_recipe)


def rows(value: float, **labels: object) -> pd.DataFrame:
    """A row of the table, as `compare` makes it."""
    axes = dict.fromkeys(["layer", "head", "kind", "relation", "change", "seed"])
    known = {"run": "run", "step": 120, "probe": "Intervention", "quantity": "delay"}
    known |= {"event": 1, "transition": "transition 1"}
    return tidy([pd.DataFrame([{**axes, **known, "lo": value, "hi": value, "value": value, **labels}])])


def test_a_branch_begins_before_the_last_checkpoint(parent: Parent) -> None:
    parent.check_start(parent.series.steps[-1] - 1, "begin earlier")
    for start in (parent.series.steps[-1], -1):
        with pytest.raises(ValueError, match=f"has come to step 6: begin earlier than 6, got {start}"):
            parent.check_start(start, "begin earlier")


def test_a_cost_counts_what_is_trained_from_the_nearest_state(parent: Parent) -> None:
    branches = branches_of(parent, [{}], 2, controls=False, seeds=1)
    assert str(parent.cost(branches)) == "1 run is trained, from the state of step 2 on: 4 updates in all"


def test_rows_of_heads_and_of_changes_stand_in_one_table_and_newer_ones_in_their_place(tmp_path: Path) -> None:
    _add_to_table(tmp_path, rows(1.0, layer=0, head=1, kind="out", control="head"))
    _add_to_table(tmp_path, rows(2.0, change="plan.learning_rate=0.1", seed=0, control="change"))
    _add_to_table(tmp_path, rows(3.0, change="plan.learning_rate=0.1", seed=1, control="change"))
    table = _add_to_table(tmp_path, rows(4.0, layer=0, head=1, kind="out", control="head"))
    assert table["value"].tolist() == [4.0, 2.0, 3.0]
    pd.testing.assert_frame_equal(table, pd.read_parquet(tmp_path / INTERVENTIONS))


def test_what_was_asked_for_itself_is_no_control_any_more(tmp_path: Path) -> None:
    for control in ("another time", "change", "another time"):
        table = _add_to_table(tmp_path, rows(1.0, change="task.p=0", seed=0, control=control))
    assert table["control"].tolist() == ["change"]
