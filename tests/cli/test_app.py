"""The command line: a screen of commands, the others in groups, each under its name and with its help."""

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from stagewise.cli.app import GROUPS, TOP, app

MOST_PARAMETERS = 12
WORDS = {verb.__name__: [verb.__name__] for verb in TOP}
WORDS |= {verb.__name__: [group, verb.__name__] for group, (_, verbs) in GROUPS.items() for verb in verbs}
VERBS = [*TOP, *(verb for _, verbs in GROUPS.values() for verb in verbs)]


def test_the_help_fits_on_a_screen_beside_the_line_that_asks_for_it() -> None:
    lines = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).output.rstrip().splitlines()
    assert len(lines) <= 22
    assert max(map(len, lines)) <= 80
    assert "…" not in "".join(lines)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
def test_a_verb_is_a_command_with_the_help_that_it_documents(verb: Callable[..., None]) -> None:
    result = CliRunner().invoke(app, [*WORDS[verb.__name__], "--help"])
    assert result.exit_code == 0
    assert " ".join(str(verb.__doc__).split())[:60] in " ".join(result.output.split())


def functions(group: typer.Typer) -> Iterator[Callable[..., Any]]:
    """What a person wrote as a command, before its groups of options are flattened."""
    yield from (inspect.unwrap(each.callback) for each in group.registered_commands if each.callback is not None)
    for each in group.registered_groups:
        assert each.typer_instance is not None
        yield from functions(each.typer_instance)


@pytest.mark.parametrize("function", [*functions(app)], ids=lambda function: function.__name__)
def test_a_command_has_few_parameters_of_its_own(function: Callable[..., Any]) -> None:
    parameters = inspect.signature(function).parameters.values()
    assert sum(not dataclasses.is_dataclass(each.annotation) for each in parameters) <= MOST_PARAMETERS


def test_an_option_that_there_is_none_of_is_named() -> None:
    result = CliRunner().invoke(app, ["measure", "somewhere", "--prob", "Loss"])
    assert (result.exit_code, "No such option" in result.output) == (2, True), result.output
