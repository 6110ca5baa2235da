"""The papers' commands: every figure of each paper is there, or is refused with those that are."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from stagewise.cli.app import app
from stagewise.papers.commands import COMMANDS


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["run", *arguments])
    return result.exit_code, result.output


@pytest.mark.parametrize("name", COMMANDS)
def test_every_paper_has_its_help(name: str) -> None:
    code, printed = call(name, "--help")
    assert (code, "--folder" in printed) == (0, True)


def test_a_figure_prints_its_numbers_and_says_where_they_are(tmp_path: Path) -> None:
    code, printed = call("emergence", "--figure", "6", "--folder", str(tmp_path), "--quiet")
    assert code == 0
    assert printed.split()[:3] == ["quantity", "published", "ours"]
    for line in printed.splitlines()[-2:]:
        assert Path(line.split(": ")[1]).stat().st_size > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a figure, as in --figure 1, or --all"),
        (["--figure", "1", "--all"], "give a figure, as in --figure 1, or --all"),
        (["--figure", "1", "--seeds", "0"], "a figure takes at least one seed, got 0"),
        (["--all", "--seeds", "2"], "--all has the seeds, the restricted-context models, the block and the steps"),
        (["--all", "--setting", "huge"], "in setting 'huge'"),
    ],
)
def test_a_figure_or_all_of_them(arguments: list[str], message: str, tmp_path: Path) -> None:
    code, printed = call("incremental", *arguments, "--folder", str(tmp_path / "none"), "--quiet")
    assert (code, message in " ".join(printed.split())) == (2, True), printed
    assert not (tmp_path / "none").exists()


def test_the_samples_of_a_head_are_told_of_a_run_folder(small_folder: Path) -> None:
    arguments = ["cause", "samples", str(small_folder), "--quiet", "--head"]
    result = CliRunner().invoke(app, [*arguments, "first"])
    assert (result.exit_code, "--head is one head, as in --head L1H0, got 'first'" in result.output) == (2, True)
    result = CliRunner().invoke(app, [*arguments, "L9H9"])
    assert (result.exit_code, "there is no head L9H9" in result.output) == (2, True)
