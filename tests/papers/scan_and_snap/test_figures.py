"""The commands of Scan and Snap: what needs no training, and what they refuse."""

from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from stagewise.cli.app import app

pytestmark = pytest.mark.usefixtures("unchecked")


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["run", "scan-and-snap", "--quiet", *arguments])
    return result.exit_code, result.output


@pytest.mark.one_of(3)
@pytest.mark.parametrize("figure", ["3", "8", "9"])
def test_a_figure_of_the_formulas_takes_no_training(figure: str, tmp_path: Path) -> None:
    code, printed = call("--figure", figure, "--folder", str(tmp_path))
    assert code == 0
    numbers = pd.read_csv(tmp_path / f"figure-{figure}.csv", dtype=str)
    assert all(str(value) in printed for value in numbers["ours"])
    assert (tmp_path / f"figure-{figure}.png").stat().st_size > 0


def test_what_it_takes_is_said_first_unless_that_is_not_known(tmp_path: Path) -> None:
    said = CliRunner().invoke(app, ["run", "scan-and-snap", "--figure", "8", "--folder", str(tmp_path)])
    assert (
        said.stderr.splitlines()[0] == "figure 8 takes seconds of one core; what is finished already is not done again"
    )
    _, quiet = call("--figure", "8", "--folder", str(tmp_path))
    assert "of one core" not in quiet


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--figure", "2"], "there is no figure 2 here; there are 3, 4, 5"),
        (["--figure", "4", "--seeds", "3"], "the others none; got 3"),
        (["--figure", "6", "--seeds", "1"], "6, 11, 12 and ratio two or more"),
        (["--figure", "6", "--steps", "9"], "only figures 7, 10 and freezing read text and take a number of steps"),
        (["--figure", "6", "--layers", "3"], "only figure 7 takes a number of layers"),
        (["--figure", "6", "--checkpoints", "4"], "only figures 7 and 10 save checkpoints of their runs, got figure 6"),
        (["--figure", "10", "--setting", "big"], "got 'big'"),
        (["--figure", "7", "--steps", "2", "--data", "nowhere"], "steps must be at least 3, got 2"),
        (
            ["--figure", "freezing", "--steps", "200"],
            "a path takes 250 minibatches",
        ),
        (["--figure", "freezing", "--checkpoints", "4"], "only figures 7 and 10 save checkpoints"),
        (["--figure", "7", "--data", "nowhere"], "nowhere/train.txt"),
        (["--figure", "5", "--fresh"], "only figures 6, 11, 12 have fresh seeds to compare with, got figure 5"),
    ],
    ids=str,
)
def test_what_a_figure_does_not_have_is_refused(arguments: list[str], message: str, tmp_path: Path) -> None:
    code, printed = call(*arguments, "--folder", str(tmp_path / "run"))
    assert code == 2
    assert message in printed
    assert not (tmp_path / "run").exists()
