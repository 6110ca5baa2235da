"""Additions of installed packages: their entry points, by the name of each; no data names any.

- `stagewise.commands`: a function or a `typer.Typer`; `run.name` stands in the group `run`, a name without a dot at the
  top.
- `stagewise.probes`: a class, which `--probe` and `stagewise.probes` find by the name.
- `stagewise.tasks`: a class, which `stagewise.tasks` finds by its name, and commands by the name in kebab case.
- `stagewise.inits`: an `AbstractInit` of this library's papers, which run.json has by its name alone.
- `stagewise.formats`: a `checkpoints.openers.Opener`, which is asked before the library's own.
- `stagewise.sections`: a section as `stagewise.reporting.section` makes it, which stands behind the library's own, or,
  where it is not folded, above them.
"""

import functools
import importlib.metadata
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Literal

Group = Literal["commands", "probes", "tasks", "inits", "formats", "sections"]


@functools.cache
def added(group: Group) -> Mapping[str, EntryPoint]:
    """Return what packages add to a group, by name; nothing is imported until it is loaded."""
    found = importlib.metadata.entry_points(group=f"stagewise.{group}")
    # Where the backport is imported, entries are of its own class.
    return {entry.name: EntryPoint(entry.name, entry.value, entry.group) for entry in found}


def loaded(group: Group, name: str) -> type:
    """Return a class that a package adds; an AttributeError says that there is none of the name."""
    if (entry := added(group).get(name)) is None:
        raise AttributeError(f"module 'stagewise.{group}' has no attribute {name!r}")
    cls: type = entry.load()
    return cls
