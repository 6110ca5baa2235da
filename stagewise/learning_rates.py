"""Learning rates of logs: which curves they are, and the warm-ups and jumps in them, which are causes."""

import itertools
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

OF_RUN = " - "
"""Between the names of run and curve, in the columns that Weights & Biases exports."""

RATE, BETWEEN, WORDS = {"lr", "learning_rate", "learningrate"}, r"[._\s-]+", r"(?<=[a-z0-9])(?=[A-Z])"
"""Words for the learning rate in a name, in lower case, and what lies between words: a sign, or a capital letter."""

MEASURED = {"loss", "acc", "accuracy", "error", "perplexity", "ppl"}
"""Words of names that a rate may stand in, too: "loss_lr_0.1" is a loss."""

ABRUPT, LARGE = 3.0, 0.2
"""A change of the rate between two entries of a log counts from so many times those before and after it, and from so
much of the larger rate: warm-ups, linear decays and cosines change by about as much from one entry to the next."""

WARM_UP, COOL_DOWN = "the learning rate's warm-up", "the learning rate's cool-down"

STEADY = 0.1
"""Part of a log in which the rate stays as it is before a cool-down, at least: a cosine decays all the time."""

Cause = int | tuple[int, int]
"""A step, or the first and the last one."""

CHANGES = "changes"
"""Attribute of a table of logged curves, as JSON: run -> name of a change that its rows tell -> its step."""

SEEMS = "what looks like"
"""Begins the name of a change that no record tells, but the curves look like."""


def is_rate(name: str) -> bool:
    """Whether a curve is a learning rate, which is done to a run, and no progress of its."""
    *folders, last = name.rpartition(OF_RUN)[2].split("/")
    parts = re.split(BETWEEN, re.sub(WORDS, " ", last))
    words = [part.lower().rstrip("0123456789") for part in parts]  # as in lr-AdamW/pg1
    within = any(RATE & {folder.lower(), folder.lower().partition("-")[0]} for folder in folders)
    named = RATE & set(words) or ("learning", "rate") in itertools.pairwise(words)
    return bool(within or named) and not MEASURED & set(words)


def of_log(history: Iterable[Mapping[str, Any]]) -> dict[str, Cause]:
    """Return the warm-up of the learning rate in the log of a trainer, its cool-down, and its jumps, half-way between
    two entries.
    """
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
    if cool := _cool_down(rates):
        found[COOL_DOWN] = (int(steps[cool]), int(steps[-1]))
    return found


def of_setting(name: str, pairs: Iterable[tuple[int, int | float]]) -> dict[str, Cause]:
    """Return the changes of a setting of a run, each half-way between two entries of its log.

    >>> of_setting("batch_size", [(0, 32), (10, 32), (20, 64)])
    {"batch_size's rise to 64": 15}
    """
    found: dict[str, Cause] = {}
    for (step, value), (later, then) in itertools.pairwise(sorted(pairs)):
        if then != value:
            change = f"{name}'s {'rise' if then > value else 'drop'} to {then:g}"
            found[numbered(change, found)] = round((step + later) / 2)
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


def _cool_down(rates: np.ndarray) -> int:
    """Return the entry from which on rates that were steady fall to the end, by a large part; 0 where none do."""
    up = np.flatnonzero(~(np.diff(rates) < 0))
    start = int(up[-1]) + 1 if len(up) else 0
    steady = np.isclose(rates[: start + 1][::-1], rates[start]).cumprod().sum() if start else 0
    lasts = start < len(rates) - 2 and steady >= STEADY * len(rates)
    return start if lasts and rates[start] - rates[-1] > LARGE * rates[start] else 0
