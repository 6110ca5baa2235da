"""`stagewise run`: a command a paper, and any other name is a task's."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stagewise.cli._names import TASKS
from stagewise.cli.app import app

PAPERS = ("incremental", "scan-and-snap", "emergence", "wikitext-baseline")


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.output


def test_a_figure_that_there_is_none_of_is_named_with_those_that_there_are(tmp_path: Path) -> None:
    code, printed = call("run", "incremental", "--figure", "99", "--folder", str(tmp_path / "none"), "--quiet")
    assert code == 2
    assert "there is no figure 99 here; there are 1, 2, 3, 4L, 4R, 5, 6, 7, 8, 9, 11, 12" in printed
    assert not (tmp_path / "none").exists()


def test_papers_and_tasks_are_listed() -> None:
    code, printed = call("run", "--help")
    assert code == 0
    assert all(name in printed for name in (*PAPERS, *TASKS))


@pytest.mark.parametrize("name", [*PAPERS, "markov", "mine:MyTask"])
def test_a_name_that_is_no_paper_has_the_options_of_a_task(name: str) -> None:
    code, printed = call("run", name, "--help")
    assert code == 0
    assert ("--preset" in printed) is (name not in PAPERS)
    assert re.search(rf"Usage: \S+ run {name} \[OPTIONS\] *\n", printed)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["recall", "--contexts", "1,x"], "--contexts takes whole numbers, as in 1,2,4; got '1,x'"),
        (["wikitext", "--contexts", "1", "--no-restricted"], "give one of the two"),
        (["incremental", "--figure", "1", "--setting", "huge"], "in setting 'huge'"),
    ],
)
def test_what_cannot_be_run_is_refused_before_a_folder_is_made(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, letters: str
) -> None:
    monkeypatch.setenv("STAGEWISE_WIKITEXT", letters)
    code, printed = call("run", *arguments, "--folder", str(tmp_path / "run"), "--quiet")
    assert (code, message in printed) == (2, True), printed
    assert not (tmp_path / "run").exists()
