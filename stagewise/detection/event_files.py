"""TensorBoard's event files: the scalars that were logged to them."""

from pathlib import Path
from typing import Any

import pandas as pd

NAMED = "tfevents"
"""In the name of every event file."""

EVERYTHING = {"scalars": 0, "tensors": 0}
"""How many values of a tag are kept: all. TensorBoard draws a sample."""


def is_events(source: Path) -> bool:
    """Whether a source is an event file, or a folder of nothing but files with one among them."""
    if source.is_file():
        return NAMED in source.name
    inside = list(source.iterdir()) if source.is_dir() else []
    return any(NAMED in each.name for each in inside) and all(each.is_file() for each in inside)


def read_events(source: Path) -> pd.DataFrame:
    """Return the scalars of an event file, or of those of a folder: a column `step` and a column a tag.

    Tags that were logged at the same steps share their rows.

    Raises:
        ValueError: it holds no scalars, or TensorBoard is not installed.
    """
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError as reason:
        raise ValueError(f"{source} is read by TensorBoard: `pip install 'stagewise[tensorboard]'`") from reason
    held: Any = EventAccumulator(str(source), size_guidance=EVERYTHING).Reload()
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
