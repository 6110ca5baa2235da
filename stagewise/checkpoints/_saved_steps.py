"""The steps of checkpoints, by their names, against those of a log or of a table."""

import re
import warnings
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from stagewise.checkpoints._table_file import read_json
from stagewise.checkpoints._weight_names import checkpoints_in
from stagewise.checkpoints.run_folder import ANALYSIS, RUN, TABLE, table_file

CHECKPOINT = r"checkpoint-\d+"
"""Trainer's name for the folder of a checkpoint."""

FAR = 2
"""Usual distances between rows by which a checkpoint lies beyond them."""


def tell_range(path: Path, steps: Iterable[int]) -> None:
    """Warn of checkpoints beside a log that lie before its first row, or behind its last one."""
    rows, folder = np.unique([*steps]), path.resolve().parent
    saved = _saved_in(folder.parent if re.fullmatch(CHECKPOINT, folder.name) else folder)
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


def _saved_in(folder: Path) -> list[int]:
    """Return the steps of the checkpoints in a folder, none where they are of several trainings."""
    inside = [each for place in (folder, folder / "checkpoints") if place.is_dir() for each in place.iterdir()]
    at = checkpoints_in(inside)
    return sorted({one.step for one in at}) if len({one.branch for one in at}) == 1 else []


def unmeasured(folder: Path) -> list[int]:
    """Return the steps that a measured folder's table lacks of the checkpoints that lie there, or in its source."""
    if not (folder / TABLE).exists():
        return []
    record = read_json(folder / ANALYSIS) if (folder / ANALYSIS).exists() else {}
    source = folder if (folder / RUN).exists() else Path(record.get("series", {}).get("source", ""))
    measured, saved = {*table_file(folder).outline["step"]}, {*_saved_in(source)}
    return sorted(saved - measured) if measured <= saved else []  # else steps were read in another way


def unmeasured_in_words(folder: Path) -> str:
    """Return how many checkpoints the table of a measured folder lacks, in words; empty where it lacks none."""
    if not (steps := unmeasured(folder)):
        return ""
    are, them = ("s are", "them") if len(steps) > 1 else (" is", "it")
    saved = f"{len(steps)} saved checkpoint{are} not in the table, step {steps[0]} first"
    return f"{saved}: `stagewise measure` adds {them}"
