"""TensorBoard's event files: the scalars that were logged to them."""

from pathlib import Path
from typing import Any

import pandas as pd

NAMED = "tfevents"
"""In the name of every event file."""

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
    """Return the scalars of an event file, or of those of a folder: a column `step` and a column a tag.

    Tags that were logged at the same steps share their rows. Folders in a folder are runs: a column `run` names them,
    and the files beside them by the folder's own name.

    Raises:
        ValueError: it holds no scalars, or TensorBoard is not installed.
    """
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError as reason:
        raise ValueError(f"{source} is read by TensorBoard: `pip install 'stagewise[tensorboard]'`") from reason
    within = sorted(each for each in source.iterdir() if each.is_dir()) if source.is_dir() else []
    if within:
        beside = any(each.is_file() and NAMED in each.name for each in source.iterdir())
        tables = [_scalars(source, EventAccumulator).assign(run=source.resolve().name)] if beside else []
        return pd.concat([*tables, *(_of_run(folder, source) for folder in within)])
    return _scalars(source, EventAccumulator)


def _of_run(folder: Path, source: Path) -> pd.DataFrame:
    """Return the scalars of a run's folder; of folders in it, by their way from the source."""
    table = read_events(folder)
    return table.assign(run=str(folder.relative_to(source)) if "run" not in table else f"{folder.name}/" + table["run"])


def _scalars(source: Path, accumulator: Any) -> pd.DataFrame:
    held: Any = accumulator(str(source), size_guidance=EVERYTHING).Reload()
    tags = held.Tags()
    scalars = {tag: [(each.step, each.value) for each in held.Scalars(tag)] for tag in tags["scalars"]}
    scalars |= {tag: _values(held.Tensors(tag)) for tag in tags["tensors"] if _is_scalar(held.SummaryMetadata(tag))}
    if not scalars:
        raise ValueError(f"{source} holds no scalars of TensorBoard's")
    together: dict[tuple[int, ...], dict[str, list[float]]] = {}
    for tag, values in scalars.items():
        together.setdefault(tuple(step for step, _ in values), {})[tag] = [value for _, value in values]
    return pd.concat([pd.DataFrame({**columns, "step": steps}) for steps, columns in together.items()])


def _is_scalar(metadata: Any) -> bool:
    return str(metadata.plugin_data.plugin_name) == "scalars"


def _values(events: Any) -> list[tuple[int, float]]:
    """Return steps and values of what TensorFlow's and JAX's writers log: tensors without axes."""
    from tensorboard.util.tensor_util import make_ndarray

    return [(each.step, float(make_ndarray(each.tensor_proto))) for each in events]
