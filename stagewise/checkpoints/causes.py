"""What was done to a run while it trained, by its own records: steps at which its learning rate changed abruptly."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from stagewise.checkpoints import run_folder

ABRUPT, LARGE = 3.0, 0.2
"""A change of the rate between two entries of a log counts from so many times those before and after it, and from so
much of the larger rate: warm-ups, linear decays and cosines change by about as much from one entry to the next."""


def causes_of(folder: Path) -> dict[str, int]:
    """Return what the record of a measured run names, as {"the learning rate's cool-down": 3000}; nothing without one.

    Raises:
        ValueError: the record cannot be read.
    """
    try:
        record = run_folder.read_record(folder)
    except FileNotFoundError:
        return {}
    return {**of_plan(record["recipe"].get("plan") or {}), **record.get("causes", {})}


def of_plan(plan: Mapping[str, Any]) -> dict[str, int]:
    """Return where a plan's rates begin to fall.

    >>> of_plan({"steps": 4000, "warmup": 100, "cooldown": 1000})
    {"the learning rate's cool-down": 3000}
    """
    return {"the learning rate's cool-down": plan["steps"] - plan["cooldown"]} if plan.get("cooldown") else {}


def of_log(history: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the jumps of the learning rate in the log of a trainer, each half-way between the entries around it.

    Args:
        history: entries with `step` and `learning_rate`, as `log_history` of Trainer; others are left out.

    >>> of_log({"step": 10 * i, "learning_rate": 1e-3 if i < 5 else 1e-4} for i in range(10))
    {"the learning rate's drop to 0.0001": 45}
    """
    pairs = [(one.get("step"), one.get("learning_rate")) for one in history]
    numbers = [(step, rate) for step, rate in pairs if isinstance(step, int) and isinstance(rate, int | float)]
    steps, rates = np.array(sorted(numbers), float).reshape(-1, 2).T
    changes = np.diff(rates)
    found: dict[str, int] = {}
    for i in range(1, len(changes) - 1):
        around = max(abs(changes[i - 1]), abs(changes[i + 1]))
        if abs(changes[i]) > max(ABRUPT * around, LARGE * max(rates[i], rates[i + 1])):
            kind = "drop" if changes[i] < 0 else "rise"
            name = f"the learning rate's {kind} to {rates[i + 1]:g}"
            again = sum(each.partition(" (")[0] == name for each in found)
            found[f"{name} (number {again + 1})" if again else name] = round((steps[i] + steps[i + 1]) / 2)
    return found
