"""Accuracies with the number of answers given: changes of one gap, of two, at the first gap, and none.

They have two to ten standard errors, at a place that is not known.
"""

import itertools
from collections.abc import Iterator

import numpy as np

from evidence.calibration.onsets import Job, generator
from evidence.calibration.rows import Row, share
from stagewise.statistics import find_transitions

SHAPES = {"none": (), "one gap": (1.0,), "two gaps": (0.5, 1.0), "first gap": (1.0,)}
"""Shares of a change that are made by the checkpoints that follow its place."""


def jobs() -> Iterator[tuple[str, Job]]:
    """Yield every case by its name."""
    for number, answers, kind in itertools.product((8, 14, 22), (50, 500, 5000), SHAPES):
        yield f"counts {kind}, {number} checkpoints of {answers}", _counted(kind, number, answers)


def _counted(kind: str, number: int, answers: int) -> Job:
    def run(repetitions: int) -> list[Row]:
        title = f"{kind}, {number} checkpoints of {answers} answers"
        draw, found, parts = generator(title), list[bool](), SHAPES[kind]
        for _ in range(repetitions):
            spread = (np.linspace(0, 10_000, number), np.append(0, np.geomspace(10, 10_000, number - 1)))
            steps, level = spread[draw.integers(2)].round(), draw.uniform(0.1, 0.5)
            size = min(draw.uniform(2, 10) * np.sqrt(2 * level * (1 - level) / answers), 0.95 - level)
            place = 0 if kind == "first gap" else int(draw.integers(1, number - 1 - len(parts)))
            likely = level + size * np.append(np.zeros(place + 1), [*parts, *np.ones(number)])[:number] * bool(parts)
            values = draw.binomial(answers, likely) / answers
            (model,) = find_transitions(steps, values[None], counts=answers)
            u = np.log1p(steps[[place, min(place + len(parts), number - 1)]])
            hits = [one for one in model.transitions if one.times[1, 1] <= u[1] and one.times[1, 2] >= u[0]]
            found.append(len(hits) > 0 if parts else len(model.transitions) > 0)
        if not parts:
            return [share(f"false onsets: counts, {title}", found, 0.05, "lower")]
        return [share(f"found: counts, {title}", found, 0.5, "higher")]

    return run
