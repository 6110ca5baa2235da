"""Groups of commands: a package's stands in the group that its name says, and is imported when it is chosen."""

from importlib.metadata import EntryPoint

import pytest
import typer
from typer.testing import CliRunner

from stagewise.cli import _groups as groups

ENTRIES = {
    name: EntryPoint(name, value, "stagewise.commands")
    for name, value in {"top": "nowhere:app", "run.tail": "nowhere:tail"}.items()
}


def app() -> typer.Typer:
    run, top = typer.Typer(cls=groups.OpenGroup), typer.Typer(cls=groups.OpenGroup)
    run.command("own")(lambda: print("own"))
    top.add_typer(run, name="run")
    return top


LISTED = {(): (["run", "top"], "tail"), ("run",): (["own", "tail"], "top")}
"""Words before --help -> the names that it lists, and one that it does not."""


@pytest.mark.parametrize("words", LISTED)
def test_a_name_with_a_dot_stands_in_its_group_and_is_not_imported_for_help(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "added", lambda group: ENTRIES)
    result, (names, other) = CliRunner().invoke(app(), [*words, "--help"]), LISTED[words]
    assert result.exit_code == 0
    assert all(name in result.output for name in names)
    assert f"{other} " not in result.output
    assert "Of the package nowhere." in result.output


def test_a_command_of_its_own_wins_and_one_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "added", lambda group: {"run.own": EntryPoint("run.own", "nowhere:own", group)})
    assert CliRunner().invoke(app(), ["run", "own"]).output == "own\n"
    monkeypatch.setattr(groups, "added", lambda group: ENTRIES)
    with pytest.raises(ModuleNotFoundError, match="No module named 'nowhere'"):
        CliRunner().invoke(app(), ["run", "tail"], catch_exceptions=False)
