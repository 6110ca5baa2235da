"""Code of one's own, by "module:name": imported where a person names it, and never because a file does."""

import contextlib
import importlib
import importlib.machinery
import itertools
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

_NAMED: dict[str, str] = {}
"""The modules that a person named, and the folder that each may come from where no package of the name is installed."""

SAFE_PATH = "PYTHONSAFEPATH"
"""Keeps the current folder off the path of a Python that starts."""


class _InItsFolder:
    """Finds modules that a person named, and what they import, in their folder: behind everything that is installed."""

    @staticmethod
    def find_spec(
        name: str, path: object = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return where a module of a folder is; nothing else that is imported ever comes from there."""
        if path is not None:
            return None
        importer = _importer()
        folders = [
            folder
            for module, folder in _NAMED.items()
            if folder and (module.partition(".")[0] == name or (importer and importer.is_relative_to(folder)))
        ]
        return importlib.machinery.PathFinder.find_spec(name, folders)


def _importer() -> Path | None:
    """Return the file whose code is importing, as the call stack tells it; None of one that is installed."""
    # Checks of types put frames of their own between the import and this function.
    callers = (frame for frame, _ in traceback.walk_stack(sys._getframe()))
    frames = itertools.dropwhile(lambda frame: not _imports(frame), callers)
    importing = next((frame for frame in frames if not _imports(frame)), None)
    file = Path(os.path.realpath((importing and importing.f_globals.get("__file__")) or "/"))
    return None if any(file.is_relative_to(os.path.realpath(each)) for each in sys.path if each) else file


def _imports(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] == "importlib"


def named() -> Mapping[str, str]:
    """Return the modules that a person named here, for `allow` in a worker."""
    return dict(_NAMED)


def allow(modules: Mapping[str, str]) -> None:
    """Allow modules that a person named, in this process or another: each with the folder that it may come from."""
    _NAMED.update(modules)
    if _NAMED and _InItsFolder not in sys.meta_path:
        sys.meta_path.append(_InItsFolder)


def import_named(name: str) -> Any:
    """Return the object that a person names as "module:name" or "path/file.py:name"; None if it does not exist.

    The module is an installed one, comes from the current folder, or is the file.

    Raises:
        ImportError: there is no such module, it imports what is not there, or a file has the name of another module.
    """
    place, _, attribute = name.rpartition(":")
    module, file = module_of(place), Path(place).resolve()
    if module == script():
        return _in(sys.modules["__main__"], attribute)  # it would be imported a second time under its module name
    if module != place and not file.is_file():
        raise ModuleNotFoundError(f"there is no file {place}")
    allow({module: str(file.parent) if module != place else os.path.realpath(os.getcwd())})
    imported = importlib.import_module(module)
    if module != place and Path(imported.__file__ or "").resolve() != file:
        raise ImportError(f"{place} has the name of the module in {imported.__file__}: rename it")
    return _in(imported, attribute)


def module_of(place: str) -> str:
    """Return the module's name of a file "path/file.py"; of a module its own.

    >>> module_of("mine/relations.py"), module_of("mine.relations")
    ('relations', 'mine.relations')
    """
    return Path(place).stem if place.endswith(".py") else place


def known(name: str, purpose: str) -> Any:
    """Return the object that data name as "module:name"; None if the module does not have it.

    Data import nothing: the module belongs to this library, or a person has imported or named it.

    Raises:
        ValueError: nobody has; the message begins with the purpose, and says how to allow it.
    """
    module, _, attribute = name.partition(":")
    own = module.split(".")[0] == __package__ and all(part.isidentifier() for part in module.split("."))
    loaded = sys.modules.get("__main__" if module == script() else module)
    with contextlib.suppress(ModuleNotFoundError):
        if loaded is None and (own or module in _NAMED):
            loaded = importlib.import_module(module)
    if loaded is None:
        raise ValueError(
            f"{purpose}, which is not imported here, since files start no code: allow it with --task {name} on the "
            f"command line, in the folder of {module}.py, or import it in Python first"
        )
    if not own:
        _NAMED.setdefault(module, "")  # for workers, which have the path that it was imported from
    return _in(loaded, attribute)


def _in(module: ModuleType, attribute: str) -> Any:
    return vars(module).get(attribute)  # a module's own __getattr__ may import others


def script() -> str:
    """Return the module name of the running script, by which other processes can import it."""
    file = getattr(sys.modules["__main__"], "__file__", None)
    return "__main__" if file is None else Path(file).stem


@contextlib.contextmanager
def safe_path() -> Iterator[None]:
    """Start every Python of this time without the current folder on its path, where it would hide the standard library.

    Workers have the path of this process.
    """
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(SAFE_PATH, None)
        else:
            os.environ[SAFE_PATH] = before


def ignore_local_look() -> None:
    """Import matplotlib without a `matplotlibrc` of the current folder, which may let it start LaTeX."""
    if os.path.exists("matplotlibrc"):
        with contextlib.chdir(sys.prefix):
            importlib.import_module("matplotlib")
