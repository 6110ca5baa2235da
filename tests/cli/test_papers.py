"""The papers' commands: every figure of each paper is there, or is refused with those that are."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from stagewise.cli.app import app
from stagewise.cli.papers import COMMANDS


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
