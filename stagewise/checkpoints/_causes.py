"""Changes of a run while it trained, by its records: where its learning rate warmed up or changed abruptly."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from stagewise.checkpoints import run_folder
from stagewise.checkpoints._table_file import read_json

ABRUPT, LARGE = 3.0, 0.2
"""A change of the rate between two entries of a log counts from so many times those before and after it, and from so
much of the larger rate: warm-ups, linear decays and cosines change by about as much from one entry to the next."""

NAMED = "tables/causes.json"
"""Where a person's causes are, in the folder of a measured run."""

WARM_UP = "the learning rate's warm-up"

Cause = int | tuple[int, int]
"""A step, or the first and the last one."""


def causes_of(folder: Path) -> dict[str, Cause]:
    """Return a measured run's causes, as {"the learning rate's cool-down": 3000}: its record's, and those named."""
    try:
        record = run_folder.read_record(folder)
    except FileNotFoundError:
        return _named(folder)
    plan = _of_plan(record["recipe"].get("plan") or {})
    return {**plan, **_causes(record.get("causes", {})), **_named(folder)}


def _named(folder: Path) -> dict[str, Cause]:
    path = folder / NAMED
    return _causes(read_json(path, "delete it, and name the causes again")) if path.exists() else {}


def _causes(written: Mapping[str, Any]) -> dict[str, Cause]:
    return {name: (at[0], at[1]) if isinstance(at, list) else at for name, at in written.items()}


def name_causes(folder: Path, causes: Mapping[str, Cause]) -> None:
    """Write a person's causes beside a measured run's table, with those named before."""
    run_folder.write_json(folder / NAMED, {**_named(folder), **causes})


def _of_plan(plan: Mapping[str, Any]) -> dict[str, Cause]:
    """Return where a plan's rates rise at first, and where they begin to fall."""
    causes: dict[str, Cause] = {}
    if 1 < plan.get("warmup", 0) < plan["steps"]:
        causes[WARM_UP] = (0, plan["warmup"])
    if 0 < plan.get("cooldown", 0) <= plan["steps"]:
        causes["the learning rate's cool-down"] = plan["steps"] - plan["cooldown"]
    return causes


def of_log(history: Iterable[Mapping[str, Any]]) -> dict[str, Cause]:
    """Return the warm-up of the learning rate in the log of a trainer, and its jumps, half-way between two entries."""
    pairs = [(one.get("step"), one.get("learning_rate")) for one in history]
    numbers = [(step, rate) for step, rate in pairs if isinstance(step, int) and isinstance(rate, int | float)]
    steps, rates = np.array(sorted(set(numbers)), float).reshape(-1, 2).T
    changes = np.diff(rates)
    warm = _warm_up(rates)
    found: dict[str, Cause] = {WARM_UP: (0, int(steps[warm]))} if warm else {}
    for i in range(max(1, warm), len(changes) - 1):
        around = max(abs(changes[i - 1]), abs(changes[i + 1]))
        if abs(changes[i]) > max(ABRUPT * around, LARGE * max(rates[i], rates[i + 1])):
            kind = "drop" if changes[i] < 0 else "rise"
            name = f"the learning rate's {kind} to {rates[i + 1]:g}"
            found[numbered(name, found)] = round((steps[i] + steps[i + 1]) / 2)
    return found


def numbered(name: str, among: Iterable[str]) -> str:
    """Return a name with its number among others of it, if there are any."""
    again = sum(each.partition(" (")[0] == name for each in among)
    return f"{name} (number {again + 1})" if again else name


def _warm_up(rates: np.ndarray) -> int:
    """Return the entry at which rates that rise from the first one on, by a large part, stop to; 0 where none do."""
    still = np.flatnonzero(~(np.diff(rates) > 0))
    end = int(still[0]) if len(still) else 0
    return end if end and rates[end] - rates[0] > LARGE * rates[end] else 0
