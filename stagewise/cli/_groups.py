"""Groups of commands that installed packages add to."""

import functools
from importlib.metadata import EntryPoint
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from stagewise.cli._commands import command
from stagewise.entry_points import added


class OpenGroup(TyperGroup):
    """A group that lists the commands of installed packages beside its own, and imports one when it is chosen."""

    def _added(self, ctx: Any) -> dict[str, EntryPoint]:
        """Return the entry points of this group by the names of their commands."""
        group = f"{self.name}." if ctx.parent is not None else ""
        whole = added("commands").items()
        return {name.removeprefix(group): each for name, each in whole if name.rpartition(".")[0] == group[:-1]}

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, the own ones first."""
        return [*super().list_commands(ctx), *self._added(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; one of a package stands in a list by its name and the name of the package."""
        own = super().get_command(ctx, cmd_name)
        if own is not None or (entry := self._added(ctx).get(cmd_name)) is None:
            return own
        package = entry.module.partition(".")[0]
        if package == __name__.partition(".")[0]:  # whose commands import little
            return _loaded(entry, cmd_name)
        return TyperCommand(cmd_name, help=f"Of the package {package}.")

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command of the first argument, imported if a package adds it."""
        if super().get_command(ctx, args[0]) is None and (entry := self._added(ctx).get(args[0])) is not None:
            return args[0], _loaded(entry, args[0]), args[1:]
        return super().resolve_command(ctx, args)


@functools.cache
def _loaded(entry: EntryPoint, name: str) -> Any:
    """Return the command, or the group, of an entry point; errors are printed as those of the library's own."""
    app = entry.load()
    if not isinstance(app, typer.Typer):
        single = typer.Typer()
        single.command(name)(command(app, models=True))
        return typer.main.get_command(single)
    for each in app.registered_commands:
        each.callback = each.callback and command(each.callback, models=True)
    group = typer.main.get_group(app)
    group.name = name
    return group
