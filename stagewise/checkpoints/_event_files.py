"""TensorBoard's event files: the scalars that were logged to them."""

from pathlib import Path
from typing import Any

import pandas as pd

NAMED = "tfevents"
"""In the name of every event file."""

HERE = "."
"""TensorBoard's name for the run of the files in the source itself, not in a folder of it."""

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
        from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer
    except ImportError as reason:
        raise ValueError(f"{source} is read by TensorBoard: `pip install 'stagewise[tensorboard]'`") from reason
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
    if [*tables] == [HERE]:
        return tables[HERE]
    names = {run: source.resolve().name if run == HERE else run for run in tables}
    return pd.concat([table.assign(run=names[run]) for run, table in tables.items()])


def _scalars(held: Any) -> pd.DataFrame:
    tags = held.Tags()
    scalars = {tag: [(each.step, each.value) for each in held.Scalars(tag)] for tag in tags["scalars"]}
    kinds = {tag: held.SummaryMetadata(tag).plugin_data.plugin_name for tag in tags["tensors"]}
    scalars |= {tag: _values(held.Tensors(tag)) for tag, kind in kinds.items() if kind == "scalars"}
    together: dict[tuple[int, ...], dict[str, list[float]]] = {}
    for tag, values in scalars.items():
        together.setdefault(tuple(step for step, _ in values), {})[tag] = [value for _, value in values]
    return pd.concat(
        [pd.DataFrame(), *(pd.DataFrame({**columns, "step": steps}) for steps, columns in together.items())]
    )


def _values(events: Any) -> list[tuple[int, float]]:
    """Return steps and values of what TensorFlow's and JAX's writers log: tensors without axes."""
    from tensorboard.util.tensor_util import make_ndarray

    return [(each.step, float(make_ndarray(each.tensor_proto))) for each in events]
