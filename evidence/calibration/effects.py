"""The rows of onsets by the model of single effects: `python -m evidence.calibration.effects [repetitions] [words]`.

Those whose names hold all the words are run. A false change within the first gap does not count: what was before
is one checkpoint. Shares with given counts have a change of two to ten standard errors, at a place that is not known.
"""

import itertools
import sys
from collections.abc import Iterator

import numpy as np
import pandas as pd

from evidence.calibration.cases import LAST, NOISES, PLANTED, SMOOTH, checkpoints, correlated
from evidence.calibration.onsets import RISE, RISES, Job, compared, generator
from evidence.calibration.rows import Row, share
from evidence.calibration.specials import HELD_OUT, SPECIALS
from evidence.effects import CurveModel, find_effects
from stagewise.findings.onsets import TIMES

SMALLEST = 0.1
"""The least change of a score that counts, as in `StageCriteria.smallest`."""

SHAPES = {"none": (), "one gap": (1.0,), "two gaps": (0.5, 1.0), "first gap": (1.0,)}
"""Shares of a change that are made by the checkpoints that follow its place."""


def jobs() -> Iterator[tuple[str, Job]]:
    """Yield every case by its name."""
    for number, spacing in itertools.product((60, 20, 12), ("lin", "log")):
        for shape, noise in itertools.product(SMOOTH, NOISES):
            yield f"null {shape}, {noise}, {spacing} {number}", _null(f"{shape}, {noise}", spacing, number)
    for spacing, name in itertools.product(("lin", "log"), [*SPECIALS, *HELD_OUT]):
        yield f"null {name}, {spacing} 60", _null(name, spacing, 60)
    for spacing, name, noise in itertools.product(("lin", "log"), PLANTED, RISES):
        yield f"planted {name}, {noise}, {spacing} 60", _planted(name, noise, spacing)
    for number, answers, kind in itertools.product((8, 14, 22), (50, 500, 5000), SHAPES):
        yield f"counts {kind}, {number} checkpoints of {answers}", _counted(kind, number, answers)


def _null(name: str, spacing: str, number: int) -> Job:
    def run(repetitions: int) -> list[Row]:
        steps, title = checkpoints(spacing, number), f"effects, false: {name}, {spacing} {number}"
        draw, (shape, _, noise) = generator(title), name.partition(", ")
        if shape in SMOOTH:
            curves = [SMOOTH[shape](draw, steps) + NOISES[noise](draw, number) for _ in range(repetitions)]
        else:
            curves = [{**SPECIALS, **HELD_OUT}[name](draw, steps) for _ in range(repetitions)]
        models = find_effects(steps, np.array(curves), known=[0.6 * LAST] if "learning-rate" in name else ())
        told = [_onsets(model) for model in models]
        return [share(title, [bool((one["t50"] > steps[1]).any()) for one in told], 0.05, "lower")]

    return run


def _planted(name: str, noise: str, spacing: str) -> Job:
    ratio, correlation = RISES[noise]

    def run(repetitions: int) -> list[Row]:
        steps, title = checkpoints(spacing, 60), f"{name}, {noise}, {spacing} 60"
        draw, deviation = generator(title), RISE / ratio / np.sqrt(1 - correlation**2)
        planted = [PLANTED[name](draw, steps) for _ in range(repetitions)]
        curves = [0.1 + RISE * one.values + correlated(draw, 60, correlation, deviation) for one in planted]
        told = [_onsets(model) for model in find_effects(steps, np.array(curves))]
        return [row._replace(name=f"effects, {row.name}") for row in compared(title, steps, planted, told, 0.9)]

    return run


def _onsets(model: CurveModel) -> pd.DataFrame:
    """Return the changes of a model as the rows of onsets."""
    names = [name + end for name in TIMES for end in ("", "_lo", "_hi")]
    some = [np.expm1(one.times).ravel() for one in model.effects if abs(one.size) >= SMALLEST]
    return pd.DataFrame(some, columns=names, dtype=float)


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
            (model,) = find_effects(steps, values[None], counts=answers)
            u = np.log1p(steps[[place, min(place + len(parts), number - 1)]])
            hits = [one for one in model.effects if one.times[1, 1] <= u[1] and one.times[1, 2] >= u[0]]
            found.append(len(hits) > 0 if parts else len(model.effects) > 0)
        if not parts:
            return [share(f"effects, false: {title}", found, 0.05, "lower")]
        return [share(f"effects, found: {title}", found, 0.5, "higher")]

    return run


def main(repetitions: int, words: list[str]) -> None:
    """Run the cases whose names hold all words, and print their rows."""
    for name, job in jobs():
        if all(word in name for word in words):
            print(*job(repetitions), sep="\n", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, sys.argv[2:])
