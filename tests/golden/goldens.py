"""Golden outputs: what is committed, what is found today, and what differs between them, field by field."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from stagewise import saved_findings
from stagewise.checkpoints._digest import digest
from stagewise.measurement import _earlier
from tests.golden import findings, readings

DATA = Path(__file__).parent / "data"

RECORD = DATA / "versions.json"
"""File of the version with which each kind of golden output was written, and of a digest of what was."""

PRECISION, FLOAT32 = 1e-6, 2e-5
"""Differences that another processor may make, whose sums round otherwise: of findings, and of passes of a model."""


class Golden(NamedTuple):
    """A kind of golden output: its version and the file of that, how to find each output, how exactly to compare it."""

    version: int
    place: str
    outputs: Mapping[str, Callable[[], Any]]
    precision: float


GOLDENS: Mapping[str, Golden] = {
    "findings": Golden(
        saved_findings.VERSION,
        "stagewise/saved_findings.py",
        {name: partial(findings.find_golden, name) for name in findings.NAMES},
        PRECISION,
    ),
    "readings": Golden(
        _earlier.VERSION, "stagewise/measurement/_earlier.py", {"readings": readings.find_readings}, FLOAT32
    ),
}


def read_output(name: str) -> Any:
    """Return the golden output that is committed, nothing where there is none yet."""
    path = DATA / f"{name}.json"
    return json.loads(path.read_text(encoding="utf8")) if path.exists() else {}


def write_output(path: Path, output: object) -> None:
    """Write a golden output, a line a field."""
    path.write_text(json.dumps(output, ensure_ascii=False, indent=1) + "\n", encoding="utf8")


def recorded(kind: str) -> dict[str, Any]:
    """Return the version and the digest of a kind as they were written."""
    record: dict[str, dict[str, Any]] = json.loads(RECORD.read_text(encoding="utf8")) if RECORD.exists() else {}
    return record.get(kind, {"version": 0, "digest": ""})


def record_of(kind: str) -> dict[str, Any]:
    """Return the version and the digest of a kind as they are now."""
    golden = GOLDENS[kind]
    return {"version": golden.version, "digest": digest({name: read_output(name) for name in golden.outputs})}


def differences(saved: Any, found: Any, precision: float = PRECISION, place: str = "") -> Iterator[str]:
    """Yield a line for each field in which two outputs differ: numbers beyond the precision, all else at all."""
    if isinstance(saved, Mapping) and isinstance(found, Mapping):
        for name in sorted({*saved, *found}):
            yield from differences(saved.get(name), found.get(name), precision, f"{place}.{name}".lstrip("."))
    elif isinstance(saved, list) and isinstance(found, list) and len(saved) == len(found):
        for i, pair in enumerate(zip(saved, found, strict=True)):
            yield from differences(*pair, precision, f"{place}[{i}]")
    elif not _is_equal(saved, found, precision):
        yield f"{place}: {saved} -> {found}"


def _is_equal(saved: Any, found: Any, precision: float) -> bool:
    if isinstance(saved, float) and isinstance(found, float):
        same = math.isclose(saved, found, rel_tol=precision, abs_tol=precision)
        return same or (math.isnan(saved) and math.isnan(found))
    return bool(saved == found)


def changes(kind: str, name: str, output: Any) -> list[str]:
    """Return what an output differs in from that which is committed."""
    return list(differences(read_output(name), json.loads(json.dumps(output)), GOLDENS[kind].precision))
