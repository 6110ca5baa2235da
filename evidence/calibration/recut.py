"""One event in four forms of its run: cut to a half, as long again, on a log scale, with every second checkpoint."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from evidence.calibration.cases import LAST, PLANTED, Planted, logistic
from evidence.calibration.onsets import VALUE, Job, decided, generator
from evidence.calibration.rows import Row, share
from stagewise.statistics import find_transitions

CHECKPOINTS = 120
"""Checkpoints of the whole run; the event lies in its first half."""

NOISE = 1 / 20
"""Deviation of white noise, of which the event is one."""

Form = Callable[[np.ndarray, np.ndarray, np.random.Generator], tuple[np.ndarray, np.ndarray]]

FORMS: dict[str, Form] = {
    "cut to a half": lambda t, y, g: (t[: len(t) // 2], y[: len(t) // 2]),
    "twice as long": lambda t, y, g: _longer(t, y, g),
    "on a log scale": lambda t, y, g: (t, np.log(y + 1)),
    "every second checkpoint": lambda t, y, g: (t[::2], y[::2]),
}
"""What becomes of steps and values, the name's rest as in "the event, ..."."""

SHAPES: dict[str, Callable[[np.random.Generator, np.ndarray], Planted]] = {
    "sigmoid .05": lambda g, t: _early(g, t, 0.05),
    "sigmoid .1": lambda g, t: _early(g, t, 0.1),
    "on a power law": lambda g, t: _on_power_law(g, t),
    "four equal rises": PLANTED["four equal rises"],
}


def jobs() -> Iterator[tuple[str, Job]]:
    """Yield every case by its name."""
    for form in FORMS:
        yield f"recut, {form}", _job(form)


def _job(form: str) -> Job:
    def run(repetitions: int) -> list[Row]:
        rows = []
        for shape, make in SHAPES.items():
            if shape == "four equal rises" and form == "cut to a half":
                continue
            draw, t = generator(f"recut {shape}"), np.linspace(0, LAST, CHECKPOINTS).round()
            kept = list[bool]()
            for _ in range(repetitions):
                values = make(draw, t).values + NOISE * draw.standard_normal(len(t))
                steps, changed = FORMS[form](t, values, draw)
                whole, other = _onsets(t, values), _onsets(steps, changed)
                kept += [_overlaps(row, other) for row in whole.to_dict("records")]
            rows.append(share(f"the same event, {form}: {shape}", kept, 0.95, "higher"))
        return rows

    return run


def _onsets(steps: np.ndarray, values: np.ndarray) -> pd.DataFrame:
    (onsets,) = decided(steps, values[None], find_transitions(steps, values[None]), declared=VALUE)
    return onsets


def _overlaps(one: Mapping[Any, Any], others: pd.DataFrame) -> bool:
    """Whether some onset's interval shares a step with that of one."""
    return bool(((others["t50_lo"] <= one["t50_hi"]) & (others["t50_hi"] >= one["t50_lo"])).any())


def _early(g: np.random.Generator, t: np.ndarray, width: float) -> Planted:
    """A rise between a sixth and two fifths of the run."""
    at = g.uniform(LAST / 6, 0.4 * LAST)
    return Planted(logistic(t, at, width), np.array([[at, at, at]]))


def _on_power_law(g: np.random.Generator, t: np.ndarray) -> Planted:
    one = _early(g, t, 0.1)
    return Planted(one.values + 2 * (1 - (1 + t / 20) ** -0.5), one.times)


def _longer(t: np.ndarray, y: np.ndarray, g: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The run goes on for as long again at the level of its last tenth."""
    level = y[-len(y) // 10 :].mean()
    more = level + NOISE * g.standard_normal(len(t) - 1)
    return np.concatenate([t, t[-1] + t[1:]]), np.concatenate([y, more])
