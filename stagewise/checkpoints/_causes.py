"""Changes of a run while it trained, by its records: its plan, and what a person named."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stagewise.checkpoints import run_folder
from stagewise.checkpoints._table_file import read_json
from stagewise.learning_rates import WARM_UP, Cause

NAMED = "tables/causes.json"
"""Where a person's causes are, in the folder of a measured run."""


def causes_of(folder: Path) -> dict[str, Cause]:
    """Return a measured run's causes, as {"the learning rate's cool-down": 3000}: its record's, and those named."""
    try:
        record = run_folder.read_record(folder)
    except FileNotFoundError:
        return _named(folder)
    plan, planned = record["recipe"].get("plan") or {}, dict[str, Cause]()
    if 1 < plan.get("warmup", 0) < plan["steps"]:
        planned[WARM_UP] = (0, plan["warmup"])
    if 0 < plan.get("cooldown", 0) <= plan["steps"]:
        planned["the learning rate's cool-down"] = plan["steps"] - plan["cooldown"]
    return {**planned, **_causes(record.get("causes", {})), **_named(folder)}


def _named(folder: Path) -> dict[str, Cause]:
    path = folder / NAMED
    return _causes(read_json(path, "delete it, and name the causes again")) if path.exists() else {}


def _causes(written: Mapping[str, Any]) -> dict[str, Cause]:
    return {name: (at[0], at[1]) if isinstance(at, list) else at for name, at in written.items()}


def name_causes(folder: Path, causes: Mapping[str, Cause]) -> None:
    """Write a person's causes beside a measured run's table, with those named before."""
    run_folder.write_json(folder / NAMED, {**_named(folder), **causes})
