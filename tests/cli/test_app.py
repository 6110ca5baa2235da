"""The command line: every verb is a command, under its name and with its help."""

import pytest
from typer.testing import CliRunner

from stagewise.cli import _verbs
from stagewise.cli._findings import compare, lineage, stages
from stagewise.cli._replays import densify
from stagewise.cli.app import app


@pytest.mark.parametrize("verb", [_verbs.train, _verbs.measure, _verbs.report, densify, compare, lineage, stages])
def test_a_verb_is_a_command_with_the_help_that_it_documents(verb: object) -> None:
    name, help_text = getattr(verb, "__name__", ""), getattr(verb, "__doc__", "")
    result = CliRunner().invoke(app, [name, "--help"])
    assert result.exit_code == 0
    assert " ".join(help_text.split())[:60] in " ".join(result.output.split())


def test_an_option_that_there_is_none_of_is_named() -> None:
    result = CliRunner().invoke(app, ["measure", "somewhere", "--prob", "Loss"])
    assert (result.exit_code, "No such option" in result.output) == (2, True), result.output
