"""Two runs on one page: what differs between their records, what came when, heads by roles; hostile names."""

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


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_of_many_settings_a_screen_is_printed_and_those_of_one_record_are_folded(folders: list[Path]) -> None:
    first, second = folders
    record = read_json(first / RUN)
    record["recipe"]["task"] |= {f"field {i}": i for i in range(30)}
    write_json(first / RUN, record)
    comparison = compare(first, second, first.parent / "out")
    assert len(str(comparison).splitlines()) <= 35
    assert "and 12 other settings, in the report" in str(comparison)
    page = comparison.report.read_text(encoding="utf8")
    assert "<summary>31 settings that one record alone has</summary>" in page
    assert "1 setting apart" in page


@pytest.mark.usefixtures("undrawn")
def test_both_runs_are_on_one_page(folders: list[Path], tmp_path: Path) -> None:
    first, second = folders
    found = compare(first, second, tmp_path / "out")
    page = found.report.read_text(encoding="utf8")
    for title in ("What differs", "What came when", "The stages of each run", "Heads by their roles"):
        assert f">{title}</h2>" in page
    assert HOSTILE not in page
    assert found.settings["setting"].tolist() == ["task.importance", "task.order"]
    assert found.comparison.roles.query("run != 'first'").set_index("head")["role"].to_dict() == {0: 1, 1: 0}
    assert found.comparison.shared["later"].tolist() == [0.0]
    assert "measured on batches of their own" in page
    assert str(found).startswith("task.importance: 1.5, 1\n")
    assert found._repr_html_().startswith("<iframe")


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_the_page_says_in_which_run_no_stages_can_be_found(folders: list[Path], tmp_path: Path) -> None:
    table = pd.read_parquet(folders[1] / TABLE)
    few = table[table["step"].isin(sorted(table["step"].unique())[:6])]
    write(folders[1] / TABLE, lambda partial: few.to_parquet(partial, index=False))
    page = compare(folders[0], folders[1], tmp_path / "out").report.read_text(encoding="utf8")
    sentence = "no stages can be found: with "
    assert f">{folders[0].name} has 2 stages. In &lt;script&gt;alert(1)&lt;/script&gt; {sentence}" in page
    assert "has 1 stage" not in page
    assert f">{sentence}" in page  # in the table of stages
    assert ", not in" not in page


@pytest.mark.usefixtures("undrawn")
def test_the_command_writes_the_page(folders: list[Path], tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["series", "compare", *map(str, folders), "--out", str(tmp_path / "page")])
    assert result.exit_code == 0, result.output
    assert result.output.rstrip().endswith(f"report: {tmp_path / 'page' / 'report.html'}")


def test_a_run_is_not_compared_with_itself(folders: list[Path]) -> None:
    with pytest.raises(ValueError, match=r"compared with another one, got .*first twice"):
        compare(folders[0], folders[0])


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_a_foreign_batch_qualifies_every_section(foreign: Path, folders: list[Path], tmp_path: Path) -> None:
    page = compare(folders[0], foreign, tmp_path / "out").report.read_text(encoding="utf8")
    sections = page.split("<section ")[1:]
    assert len(sections) >= 4  # settings, events, stages, and a curve at least
    assert all(CAVEAT in section for section in sections)
