"""`stagewise intervene`: heads by name, the cost first, the delays in words."""

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stagewise.cli._intervene import clamps_of
from stagewise.cli.app import app
from stagewise.plan import ClampHead

pytestmark = pytest.mark.usefixtures("few_sequences", "undrawn", "unchecked")


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["intervene", *arguments])
    return result.exit_code, " ".join(result.output.split())


def test_the_cost_is_said_and_then_the_delays(small_folder: Path, tmp_path: Path) -> None:
    run = str(shutil.copytree(small_folder, tmp_path / "run"))
    status, printed = call(run, "--hold-out", "L0H1", "--from", "3", "--dry-run")
    assert (status, printed) == (0, "3 runs are trained, from the state of step 2 on: 12 updates in all")
    assert not (tmp_path / "run" / "interventions").exists()
    status, printed = call(run, "--hold-out", "L0H1", "--from", "2", "--no-controls", "--quiet")
    assert status == 0, printed
    assert "L0H1 out from 2 (head): the loss falls half-way to its end" in printed


def test_a_head_is_given_a_relation(small_folder: Path, tmp_path: Path) -> None:
    run = str(shutil.copytree(small_folder, tmp_path / "run"))
    status, printed = call(run, "--attend", "L0H1=I(2)", "--from", "2", "--no-controls", "--quiet")
    assert status == 0, printed
    assert "L0H1 on I(2) from 2 (head): the loss falls half-way to its end" in printed


def test_heads_are_named_and_what_is_no_head_is_refused(small_folder: Path) -> None:
    assert clamps_of({"out": ["L1H10"], "weights": ["L0H0"]}, 5) == [ClampHead(1, 10, 5), ClampHead(0, 0, 5, "weights")]
    assert clamps_of({"relation": ["L0H1=value to key"]}, 5) == [ClampHead(0, 1, 5, "relation", "value to key")]
    for kind, name in (("out", "L0H1=I(1)"), ("relation", "L0H1")):
        with pytest.raises(ValueError, match="--attend alone names a relation"):
            clamps_of({kind: [name]}, 5)
    for heads in (["1"], ["L0H1x"], []):
        with pytest.raises(ValueError, match="as in"):
            clamps_of({"out": heads}, 5)
    status, printed = call(str(small_folder), "--hold-out", "L9H0", "--from", "2", "--quiet")
    assert (status, "there is no head L9H0: small has 1 layer of 2 heads" in printed) == (2, True)
    status, printed = call(str(small_folder), "--attend", "L0H0=I(7)", "--from", "2", "--quiet")
    assert (status, "no relation 'I(7)' to hold a head at; those that it can be are 'I(1)', 'I(2)'" in printed) == (
        2,
        True,
    )
    assert not (small_folder / "interventions").exists()


def test_a_clamp_after_the_end_is_refused_before_its_cost(small_folder: Path) -> None:
    status, printed = call(str(small_folder), "--hold-out", "L0H1", "--from", "60", "--dry-run")
    assert (status, "a clamp starts before step 6, the last one" in printed) == (2, True)


def test_checkpoints_trained_elsewhere_have_no_recipe_to_go_on_with(checkpoints: Path) -> None:
    result = CliRunner().invoke(app, ["intervene", str(checkpoints), "--hold-out", "L0H1", "--from", "0"])
    assert result.exit_code == 2
    assert "and intervene continues with a training by the recipe there" in " ".join(result.output.split())
