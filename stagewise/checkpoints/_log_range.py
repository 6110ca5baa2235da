"""The steps of a log against those of the checkpoints beside it."""

import re
import warnings
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from stagewise.checkpoints._weight_names import TRAINING, holds_weights, is_file, names_of

CHECKPOINT = r"checkpoint-\d+"
"""Trainer's name for the folder of a checkpoint."""

FAR = 2
"""Usual distances between rows by which a checkpoint lies beyond them."""


def tell_range(path: Path, steps: Iterable[int]) -> None:
    """Warn of checkpoints beside a log that lie before its first row, or behind its last one."""
    rows, saved = np.unique([*steps]), _saved_beside(path)
    if len(rows) < 2 or not saved:
        return
    far = FAR * np.median(np.diff(rows))
    for words, at, beyond in (
        ("begins at step {}, behind", rows[0], [step for step in saved if step < rows[0] - far]),
        ("ends at step {}, before", rows[-1], [step for step in saved if step > rows[-1] + far]),
    ):
        if beyond:
            of = f"checkpoints beside it, steps {min(beyond)} to {max(beyond)}"
            warnings.warn(f"{path.name} {words.format(at)} {len(beyond)} {of}: a part of the log is gone", stacklevel=3)


def _saved_beside(path: Path) -> list[int]:
    """Return the steps of the checkpoints in a log's folder, or about it where that is a checkpoint's."""
    folder = path.resolve().parent
    folder = folder.parent if re.fullmatch(CHECKPOINT, folder.name) else folder
    inside = [each for place in (folder, folder / "checkpoints") if place.is_dir() for each in place.iterdir()]
    weights = [each for each in inside if holds_weights(each) or (is_file(each) and not TRAINING.match(each.name))]
    return [reading.at.step for reading in names_of(weights).values() if reading.at is not None]
