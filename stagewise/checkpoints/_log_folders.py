"""Curves in folders: TensorBoard's event files, MLflow's files of metrics, a JSON file a step, or a text a run."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from stagewise.checkpoints._digest import bytes_of, check_file
from stagewise.checkpoints._log_columns import read_separated
from stagewise.checkpoints._log_layout import flat
from stagewise.checkpoints._log_lines import read_lines, text_of
from stagewise.checkpoints._table_file import read_json
from stagewise.checkpoints.names import read_names

NAMED = "tfevents"
"""In the name of every event file."""

HERE = "."
"""TensorBoard's name for the run of the files in the source itself, not in a folder of it."""

FRAME = 16
"""Bytes about each record of an event file: its length, and two checksums."""

EVERYTHING = {"scalars": 0, "tensors": 0}
"""How many values of a tag are kept: all. TensorBoard draws a sample."""


def is_events(source: Path) -> bool:
    """Whether a source is an event file, a folder of files with one among them, or one of such folders, a run each."""
    if source.is_file():
        return NAMED in source.name
    inside = list(source.iterdir()) if source.is_dir() else []
    within = [each for each in inside if each.is_dir()]
    return any(NAMED in each.name or each in within for each in inside) and all(map(is_events, within))


def read_events(source: Path) -> pd.DataFrame:
    """Return the scalars of an event file, or of those of a folder: a column `step` and a column a tag."""
    try:
        from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer
    except ImportError as reason:
        raise ValueError(f"{source} is read by TensorBoard: `pip install 'stagewise[tensorboard]'`") from reason
    for path in [*source.rglob(f"*{NAMED}*")] if source.is_dir() else [source]:
        _check_read_whole(path)
    events: Any = EventMultiplexer(size_guidance=EVERYTHING)
    if source.is_dir():
        events.AddRunsFromDirectory(str(source))
    else:
        events.AddRun(str(source), HERE)
    events.Reload()
    held = {run: _scalars(events.GetAccumulator(run)) for run in sorted(events.Runs())}
    tables = {run: table for run, table in held.items() if len(table)}
    if not tables:
        raise ValueError(f"{source} holds no scalars of TensorBoard's")
    here = source.resolve().name
    named = [table.assign(run=here if run == HERE else run) for run, table in tables.items()]
    return tables[HERE] if [*tables] == [HERE] else pd.concat(named)


def _check_read_whole(path: Path) -> None:
    """Say where reading stops: TensorBoard ends at the first damaged record in silence."""
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader

    check_file(path)
    size, read = path.stat().st_size, sum(len(record) + FRAME for record in RawEventFileLoader(str(path)).Load())
    if read < size:
        why = f"damaged at byte {read}, or still being written; {size - read} bytes after it are left out"
        warnings.warn(f"{path.name} is {why}", stacklevel=6)


def _scalars(held: Any) -> pd.DataFrame:
    from tensorboard.util.tensor_util import make_ndarray

    tags = held.Tags()
    scalars = {tag: [(each.step, each.value) for each in held.Scalars(tag)] for tag in tags["scalars"]}
    kinds = {tag: held.SummaryMetadata(tag).plugin_data.plugin_name for tag in tags["tensors"]}
    for tag in (tag for tag, kind in kinds.items() if kind == "scalars"):  # TensorFlow's and JAX's writers' tensors
        scalars[tag] = [(each.step, float(make_ndarray(each.tensor_proto))) for each in held.Tensors(tag)]
    together: dict[tuple[int, ...], dict[str, list[float]]] = {}
    for tag, values in scalars.items():
        together.setdefault(tuple(step for step, _ in values), {})[tag] = [value for _, value in values]
    tables = (pd.DataFrame({**columns, "step": steps}) for steps, columns in together.items())
    return pd.concat([pd.DataFrame(), *tables])


METRICS, META, NAME = "metrics", "meta.yaml", "tags/mlflow.runName"
"""MLflow's names for the folder of a run's metrics, the file beside it, and the file with the run's name."""

CSV = "metrics.csv"
"""Lightning's name for the file of a version's curves."""

TEXTS = (".log", ".out", ".txt")
"""Endings of files that trainers print to."""

FEWEST = 4
"""JSON files of steps at least that a folder holds, for it to be a log."""


def read_mlflow(folder: Path) -> pd.DataFrame:
    """Return the curves of MLflow's folder, of a run or of runs, a row a value with `run` and `metric`."""
    return pd.DataFrame([row for run in runs(folder) for row in _metrics(run)])


def read_lightning(folder: Path) -> pd.DataFrame:
    """Return the curves of Lightning's CSVLogger, a run a version; those that begin where another ends continue it."""
    frames = [read_separated(text_of(path)).assign(run=path.parent.name) for path in versions(folder)]
    return pd.concat(frames, ignore_index=True)


def read_texts(folder: Path) -> pd.DataFrame:
    """Return the curves of a folder of texts, a run a text."""
    return pd.concat([read_lines(path).assign(run=path.stem) for path in texts(folder)], ignore_index=True)


def read_a_file_a_step(folder: Path) -> pd.DataFrame:
    """Return the curves of a folder of JSON files, a row a file."""
    return pd.DataFrame([{"step": step, **flat(read_json(path))} for step, path in sorted(files_of_steps(folder))])


def runs(folder: Path) -> list[Path]:
    """Return the folders of MLflow's runs: this one, those in it, or those of the experiments in it."""
    for place in (META, f"*/{META}", f"*/*/{META}"):
        if found := [path.parent for path in sorted(folder.glob(place)) if (path.parent / METRICS).is_dir()]:
            return found
    return []


def versions(folder: Path) -> list[Path]:
    """Return the files of a version of Lightning's, or of those in a folder."""
    return [path for place in (CSV, f"version_*/{CSV}") for path in sorted(folder.glob(place))]


def texts(folder: Path) -> list[Path]:
    """Return the texts in a folder of texts alone: with checkpoints or other folders beside them, it is another one."""
    files = [path for path in sorted(folder.iterdir()) if not path.name.startswith(".")]
    return files if all(path.is_file() and path.suffix in TEXTS for path in files) else []


def _metrics(run: Path) -> Iterator[dict[str, Any]]:
    name = run / NAME
    label = bytes_of(name).decode("utf8", "replace").strip() if name.is_file() else run.name
    for path in sorted(each for each in (run / METRICS).rglob("*") if each.is_file()):
        metric = path.relative_to(run / METRICS).as_posix()
        for line in bytes_of(path).decode("utf8").splitlines():
            try:
                _, value, step = line.split()[:3]
                yield {"run": label, "metric": metric, "step": int(step), "value": float(value)}
            except ValueError as reason:
                raise ValueError(f"{path}: MLflow writes a time, a value and a step, this is {line[:80]!r}") from reason


def files_of_steps(folder: Path) -> list[tuple[int, Path]]:
    """Return the JSON files with steps in their names, and these; none where there are few."""
    paths = sorted(folder.glob("*.json"))
    readings = zip(read_names([path.stem for path in paths]), paths, strict=True)
    found = [(reading.at.step, path) for reading, path in readings if reading.at is not None]
    return found if len(found) >= FEWEST else []
