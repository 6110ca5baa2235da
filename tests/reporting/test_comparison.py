"""Two runs compared in words: what differs between their records, what came when, heads by roles."""

from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from stagewise.checkpoints._table_file import read_json
from stagewise.checkpoints.run_folder import RUN, TABLE, write, write_json
from stagewise.cli.app import app
from stagewise.reporting.comparison import _differences, compare
from stagewise.words import CAVEAT

HOSTILE = "<script>alert(1)</script>"
RECIPE = {"task": {"type": "MarkovChain", "importance": 1.5}, "plan": {"steps": 900, "clamps": None}}


@pytest.fixture
def folders(one_onset: pd.DataFrame, tmp_path: Path) -> list[Path]:
    """In the second run the heads have each other's indices, and the task another importance."""
    recipes = RECIPE, {**RECIPE, "task": {"type": "MarkovChain", "importance": 1.0, "order": HOSTILE}}
    places = [tmp_path / "first", tmp_path / "second"]
    for i, (place, recipe) in enumerate(zip(places, recipes, strict=True)):
        heads = 1 - one_onset["head"] if i else one_onset["head"]
        table = one_onset.assign(run=(place.name, HOSTILE)[i], head=heads, nested=0)
        write(place / TABLE, lambda partial, table=table: table.to_parquet(partial, index=False))  # type: ignore[misc]
        write_json(place / RUN, {"format": 1, "recipe": recipe})
    return places


def test_what_differs_is_named_and_only_that() -> None:
    first = {"recipe": {"plan": {"steps": 900, "save": [0, 9]}, "task": {"a": 1}}, "versions": {"torch": "2"}}
    second = {"recipe": {"plan": {"steps": 900, "save": [0, 4, 9]}, "task": {"b": None}}, "versions": {"torch": "2"}}
    rows = _differences(first, second).to_numpy().tolist()
    assert rows == [["plan.save", "0, 9", "0, 4, 9"], ["task.a", "1", "–"], ["task.b", "–", "none"]]  # noqa: RUF001
    assert _differences(first, first).empty


def test_what_both_records_have_comes_first_and_an_audit_is_no_setting() -> None:
    first = {"config": {"eps": 1e-5, "n_layers": 1}, "audit": {"name": "first"}, "causes": None}
    second = {"config": {"n_layers": 2}}
    rows = _differences(first, second).to_numpy().tolist()
    assert rows == [["config.n_layers", "1", "2"], ["config.eps", "1e-05", "–"]]  # noqa: RUF001


def test_of_many_settings_a_screen_is_printed(folders: list[Path]) -> None:
    first, second = folders
    record = read_json(first / RUN)
    record["recipe"]["task"] |= {f"field {i}": i for i in range(30)}
    write_json(first / RUN, record)
    printed = str(compare(first, second))
    assert len(printed.splitlines()) <= 35
    assert "and 12 other settings\n" in printed


def test_settings_events_and_roles_are_compared(folders: list[Path]) -> None:
    found = compare(*folders)
    assert found.settings["setting"].tolist() == ["task.importance", "task.order"]
    assert found.comparison.roles.query("run != 'first'").set_index("head")["role"].to_dict() == {0: 1, 1: 0}
    assert found.comparison.events.dropna(subset="later")["later"].tolist() == [0.0]
    assert str(found).startswith("task.importance: 1.5, 1\n")


def test_it_is_said_in_which_run_no_stages_can_be_found(folders: list[Path]) -> None:
    table = pd.read_parquet(folders[1] / TABLE)
    few = table[table["step"].isin(sorted(table["step"].unique())[:6])]
    write(folders[1] / TABLE, lambda partial: few.to_parquet(partial, index=False))
    printed = str(compare(folders[0], folders[1]))
    assert f"in {HOSTILE} no stages can be found: with " in printed
    assert ", not in" not in printed


def test_the_command_prints_it(folders: list[Path]) -> None:
    result = CliRunner().invoke(app, ["series", "compare", *map(str, folders)])
    assert result.exit_code == 0, result.output
    assert result.output == f"{compare(*folders)}\n"


def test_a_run_is_not_compared_with_itself(folders: list[Path]) -> None:
    with pytest.raises(ValueError, match=r"compared with another one, got .*first twice"):
        compare(folders[0], folders[0])


def test_a_foreign_batch_qualifies_the_comparison(foreign: Path, folders: list[Path]) -> None:
    assert f"{CAVEAT}:\n  " in str(compare(folders[0], foreign))
