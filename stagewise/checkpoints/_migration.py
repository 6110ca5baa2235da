"""Records of earlier versions: the one place that brings them to the form of this one, or says which version to use."""

from collections.abc import Callable
from typing import Any

FORMAT = 1
"""The form of run.json and analysis.json that this version writes, under the key `format`."""

Record = dict[str, Any]


def _first(record: Record) -> Record:
    """Version 0.1 wrote no `format`, and what it wrote is form 1."""
    return {**record, "format": 1}


STEPS: tuple[Callable[[Record], Record], ...] = (_first,)
"""From each form to the next one, the oldest first."""


def migrated(record: Record, path: object) -> Record:
    """Return a record in the form of this version.

    Args:
        record: as it was read.
        path: of its file, for the message.

    Raises:
        ValueError: a later version wrote it, and the message names it; or its form is no number.

    >>> migrated({"recipe": {}}, "run.json")
    {'recipe': {}, 'format': 1}
    """
    form = record.get("format", 0)
    if not isinstance(form, int) or isinstance(form, bool) or form < 0:
        raise ValueError(f"{path} has the format {form!r}, expected a whole number from 0 to {FORMAT}: restore it")
    if form > FORMAT:
        raise ValueError(
            f"{path} has format {form}, and this version reads up to {FORMAT}: use {_version(record)}, which wrote it, "
            "or a later one"
        )
    for step in STEPS[form:]:
        record = step(record)
    return record


def _version(record: Record) -> str:
    versions = record.get("versions")
    return f"stagewise {versions.get('stagewise', 'of its time') if isinstance(versions, dict) else 'of its time'}"
