"""Where the runs of a sweep go, by the text of an option: processes here, a dask cluster, or submitit."""

import contextlib
import importlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stagewise import own_code

if TYPE_CHECKING:
    from stagewise.sweeping import AbstractExecutor

JOBS = ".jobs"
"""The folder of submitit, beside the run folders of a sweep; a shell's `FOLDER/*/` does not find it."""


@contextlib.contextmanager
def executor_named(text: str | None, folder: Path) -> Iterator["AbstractExecutor | None"]:
    """Yield the executor of `dask:ADDRESS` or of `submitit`, as in `submitit:slurm_partition=cpu,timeout_min=60`."""
    kind, _, rest = (text or "").partition(":")
    if text is None:
        yield None
    elif kind == "dask" and rest:
        with _imported("distributed").Client(rest) as client:
            yield client.get_executor()
    elif kind == "submitit":
        executor = _imported("submitit").AutoExecutor(_private(folder / JOBS))
        executor.update_parameters(**_parameters(rest))
        with _own_code_by_value():
            yield executor
    else:
        raise ValueError(f"--executor is dask:ADDRESS, or submitit with its parameters behind a colon; got {text!r}")


@contextlib.contextmanager
def _own_code_by_value() -> Iterator[None]:
    """Send the code of modules that a person named along with jobs: these start without the current folder's path."""
    cloudpickle: Any = importlib.import_module("cloudpickle")
    package = __name__.partition(".")[0]
    names = [name for name, place in own_code.named().items() if place and name.partition(".")[0] != package]
    modules = [sys.modules[name] for name in names if name in sys.modules]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)


def _private(folder: Path) -> Path:
    """Make a new folder in a folder for the pickles of jobs, which others can neither read nor foresee."""
    from stagewise.checkpoints._writing import check_inside

    check_inside(folder / folder.name)
    folder.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(dir=folder))


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as reason:
        raise ValueError(f"{name} is not installed: pip install 'stagewise[cluster]'") from reason


def _parameters(text: str) -> dict[str, int | str]:
    """Return submitit's parameters, whole numbers as such."""
    pairs = [part.partition("=") for part in text.split(",") if part]
    if bad := [key for key, separator, value in pairs if not (key and separator and value)]:
        raise ValueError(f"submitit's parameters are key=value,key=value,...; got {bad[0]!r} in {text!r}")
    return {key: int(value) if value.isdecimal() else value for key, _, value in pairs}
