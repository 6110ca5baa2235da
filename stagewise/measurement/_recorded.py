"""The probes of a table: by name, in words, and made anew."""

import ast
import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path

from stagewise import probes as catalogue
from stagewise.checkpoints._data_files import read_json
from stagewise.checkpoints._table_file import TableFile
from stagewise.checkpoints.run_folder import TABLE
from stagewise.models._numbers import Dtype
from stagewise.probe import AbstractProbe
from stagewise.recipe import type_name
from stagewise.table import WEIGHTS

PROBES = "probes"
"""Key in what decided a table's measurement: the probe in words, by its name, of one's own by "module:Class"."""


def in_words(probes: Iterable[AbstractProbe]) -> dict[str, str]:
    """Return a table's records of its probes."""
    return {type_name(type(probe)): repr(probe) for probe in probes}


def recorded_probes(folder: Path) -> dict[str, str]:
    """Return the records of the probes in the table of a run folder; nothing where there is no table."""
    file = TableFile(folder / TABLE)
    if not file.path.exists():
        return {}
    if recorded := file.provenance.get(PROBES):
        return dict(recorded)
    names = set(file.outline["probe"]) - {WEIGHTS}  # an earlier version's, which has them beside the parts
    beside = sorted(file.path.parent.glob("parts/*/settings.json"), key=lambda path: path.stat().st_mtime_ns)
    for path in reversed(beside):
        probes = {text.partition("(")[0]: text for text in read_json(path, "delete it").get("probes", [])}
        if names <= probes.keys():
            return probes
    raise ValueError(
        f"{file.path} does not say which probes it was measured with: measure it anew, with `stagewise measure "
        f"{folder}`"
    )


def recorded_sequences(folder: Path) -> int | None:
    """Return on how many sequences the table of a run folder was measured; None where there is none that says so."""
    file = TableFile(folder / TABLE)
    return file.provenance.get("sequences") if file.path.exists() else None


def recorded_dtype(folder: Path) -> Dtype:
    """Return the type in which the products of a run folder's table were computed; float32 where none is recorded."""
    file = TableFile(folder / TABLE)
    dtype: Dtype = file.provenance.get("dtype", "float32") if file.path.exists() else "float32"
    return dtype


def made_anew(recorded: Mapping[str, str], known: Iterable[AbstractProbe] = ()) -> list[AbstractProbe]:
    """Return the probes of a record: known ones that are the same in words, or the catalogue's with its parameters."""
    same = in_words(known)
    by_name = {type_name(type(probe)): probe for probe in known}
    return [by_name[name] if same.get(name) == text else _made(name, text) for name, text in recorded.items()]


def _made(name: str, text: str) -> AbstractProbe:
    cls = vars(catalogue).get(name)
    if not isinstance(cls, type):
        fix = name if ":" in name else f"module:{name}"
        raise ValueError(
            f"the table was measured with {text}, a probe of one's own: give --probe {fix}, or leave its rows out with "
            f"--without {name.rpartition(':')[2]}"
        )
    needed = [each for each in dataclasses.fields(cls) if each.default is each.default_factory is dataclasses.MISSING]
    if not needed and repr(cls()) == text:
        return cls()  # type: ignore[no-any-return]  # of the catalogue
    try:
        call = ast.parse(text, mode="eval").body
        given = {str(each.arg): ast.literal_eval(each.value) for each in getattr(call, "keywords", ())}
        probe: AbstractProbe = cls(**given)
    except (SyntaxError, ValueError, TypeError) as reason:
        raise ValueError(_unreadable(name, text)) from reason
    if repr(probe) != text:
        raise ValueError(_unreadable(name, text))
    return probe


def _unreadable(name: str, text: str) -> str:
    return (
        f"the table was measured with {text}, whose parameters cannot be read from these words: give a subclass "
        f"with them as its defaults, by --probe module:{name}, or leave its rows out with --without {name}"
    )
