"""The ways to open a source, in one list: each says whether a source is its own, and opens it.

A package adds its own by an entry point of the group `stagewise.formats` that names an `Opener`; it is asked first.
"""

import dataclasses
import itertools
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from stagewise.checkpoints import _log_files, _log_folders
from stagewise.checkpoints._digest import check_file
from stagewise.checkpoints._weight_names import checkpoints_in, chosen_files, converter, gguf_at, is_file
from stagewise.checkpoints.names import REPOSITORY, Coordinates, Parse, whole
from stagewise.checkpoints.run_folder import RUN, TABLE
from stagewise.entry_points import added

if TYPE_CHECKING:
    from stagewise.checkpoints.sources import Source


@dataclasses.dataclass(frozen=True)
class Options:
    """A person's choices for finding checkpoints: the arguments of `series.open_series` of these names."""

    classes: Iterable[type] = ()
    parse: Parse | str | None = None
    hub: Mapping[str, Any] | None = None
    base: Any = None


@dataclasses.dataclass(frozen=True)
class Opener:
    """A way to open a source: as checkpoints or as curves.

    Args:
        name: what it opens, as messages say it.
        is_mine: whether a source is one; names of files and their first bytes tell it, no weights are read.
        checkpoints: finds those of the source; None for curves.
        curves: reads them, as a frame with a column of steps; None for checkpoints.
    """

    name: str
    is_mine: Callable[[Any], bool]
    checkpoints: "Callable[[Any, Options], Source] | None" = None
    curves: Callable[[Path], pd.DataFrame] | None = None


def opener_of(source: Any) -> Opener:
    """Return the first way to open a source."""
    ways: list[Opener] = [*(entry.load() for entry in added("formats").values()), *OPENERS]
    return next(each for each in ways if each.is_mine(source))


def is_log(source: Any) -> bool:
    """Whether a source holds curves, and no checkpoints."""
    return opener_of(source).curves is not None


def curves_of(source: Path) -> pd.DataFrame:
    """Read the curves of a source.

    Raises:
        FileNotFoundError: there is none.
        ValueError: it holds checkpoints, or no curves that can be read.
    """
    opener = opener_of(source)
    if opener.curves is not None:
        return opener.curves(source)
    if not source.exists():
        raise FileNotFoundError(f"there is no {source}")
    check_file(source)
    fix = "" if opener is OPENERS[-1] else ": `stagewise.open_series` opens it"
    raise ValueError(f"{source} is {opener.name} and holds no curves{fix}")


def _is_path(source: Any) -> bool:
    return isinstance(source, str | Path)


def _is_elsewhere(source: Any) -> bool:
    return isinstance(source, str) and not Path(source).exists()


def expanded(name: str) -> list[str]:
    """Return the names that braces stand for, as a shell does; the name itself if it has none."""
    parts = re.split(r"\{([^{}]*,[^{}]*)\}", name)
    choices = [part.split(",") if k % 2 else [part] for k, part in enumerate(parts)]
    return ["".join(chosen) for chosen in itertools.product(*choices)]


def _checkpoints(folder: Path) -> object:
    """Return the model in a folder, or the files or folders of weights with a step in their names."""
    inside = list(folder.iterdir())
    return chosen_files(path.name for path in inside) or checkpoints_in(inside)


def _is_text(path: Path) -> bool:
    return path.is_file() and not is_file(path) and not converter([path.name])


def _of_paths(is_mine: Callable[[Path], bool]) -> Callable[[Any], bool]:
    return lambda source: _is_path(source) and is_mine(Path(source))


def _holding(inside: Callable[[Path], object]) -> Callable[[Any], bool]:
    return _of_paths(lambda path: path.is_dir() and bool(inside(path)))


def _listed(source: Any, options: Options) -> "Source":
    from stagewise.checkpoints._hub_revisions import one_each
    from stagewise.checkpoints.sources import given

    if not isinstance(source, Iterable):
        raise ValueError(f"a model in memory has a step: give [(step, model), ...]; got {type(source).__name__}")
    items = sorted(source.items(), key=lambda item: whole(item[0])) if isinstance(source, Mapping) else [*source]
    places = [item for item in items if isinstance(item, str | Path)]
    return one_each(places, options.parse, options.hub) if places and len(places) == len(items) else given(items)


def _on_hub(source: str, options: Options) -> "Source":
    from stagewise.checkpoints._hub_revisions import on_hub
    from stagewise.checkpoints.hub import Hub

    try:
        found = on_hub(Hub(source, **(options.hub or {})), options.parse)
    except (FileNotFoundError, ConnectionError) as reason:
        raise type(reason)(f"there is no folder {source} here, and as a repository: {reason}") from reason
    return dataclasses.replace(found, identity=source)


def _in_file(source: str | Path, options: Options) -> "Source":
    from stagewise.checkpoints._one_file import in_file, in_gguf

    path = gguf_at(Path(source))
    found = in_file(Path(source), options.parse) if path is None else in_gguf(path)
    return dataclasses.replace(found, identity=os.path.realpath(path or source))


def _in_folder(source: str | Path, options: Options) -> "Source":
    from stagewise.checkpoints._folders import in_folder, in_run, on_base
    from stagewise.checkpoints._hub_revisions import place_of

    folder = Path(source)
    is_run = (folder / RUN).exists()
    found = in_run(folder, options.classes) if is_run else in_folder(folder, options.parse)
    if options.base is not None:
        found = on_base(found, folder, place_of(str(options.base), Coordinates(0), options.hub))
    return dataclasses.replace(found, identity=os.path.realpath(folder), folder=folder)


OPENERS = (
    Opener("a list of checkpoints", lambda source: not _is_path(source), _listed),
    Opener(
        "a name with steps in braces",
        lambda source: _is_elsewhere(source) and len(expanded(source)) > 1,
        lambda source, options: _listed(expanded(source), options),
    ),
    Opener("a repository", lambda source: _is_elsewhere(source) and bool(re.fullmatch(REPOSITORY, source)), _on_hub),
    Opener("a run", _of_paths(lambda path: (path / RUN).exists()), _in_folder),
    Opener("a file of weights", _of_paths(lambda path: path.is_file() and is_file(path)), _in_file),
    Opener("a file of llama.cpp", _of_paths(lambda path: gguf_at(path) is not None), _in_file),
    Opener("a folder of checkpoints", _holding(_checkpoints), _in_folder),
    Opener("TensorBoard's event files", _of_paths(_log_folders.is_events), curves=_log_folders.read_events),
    Opener("MLflow's folder", _holding(_log_folders.runs), curves=_log_folders.read_mlflow),
    Opener("Lightning's folder", _holding(_log_folders.versions), curves=_log_folders.read_lightning),
    Opener("a folder of texts", _holding(_log_folders.texts), curves=_log_folders.read_texts),
    Opener("a folder of JSON files", _holding(_log_folders.files_of_steps), curves=_log_folders.read_a_file_a_step),
    Opener("a database", _of_paths(_log_files.is_database), curves=_log_files.read_database),
    Opener("arrays of curves", _of_paths(_log_files.is_arrays), curves=_log_files.read_arrays),
    Opener("a file of curves", _of_paths(_is_text), curves=_log_files.read_file),
    Opener(
        "another tool's folder",
        _holding(lambda path: not (path / TABLE).exists() and _log_files.inside(path)),
        curves=_log_files.refuse,
    ),
    Opener("in no known form", lambda source: True, _in_folder),
)
"""The ways that are there: the first that says that a source is its own opens it; the last one says what is missing."""
