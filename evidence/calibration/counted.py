"""Accuracies with the number of answers given: changes of one gap, of two, at the first gap, none, and smooth growth.

They have two to ten standard errors, at a place that is not known. Beside how often one is found stands how often a
likelihood-ratio test finds it that is told its place and shape, and is wrong in .05 of nulls.
"""

import itertools
from collections.abc import Iterator

import numpy as np
import scipy

from evidence.calibration.onsets import Job, generator
from evidence.calibration.rows import Row, share
from stagewise.statistics import binomial_errors, find_transitions

SHAPES = {"none": (), "growing": (), "one gap": (1.0,), "two gaps": (0.5, 1.0), "first gap": (1.0,)}
"""Shares of a change that are made by the checkpoints that follow its place."""


def jobs() -> Iterator[tuple[str, Job]]:
    """Yield every case by its name."""
    for number, answers, kind in itertools.product((8, 14, 22), (50, 500, 5000), SHAPES):
        yield f"counts {kind}, {number} checkpoints of {answers}", _counted(kind, number, answers)


def _counted(kind: str, number: int, answers: int) -> Job:
    def run(repetitions: int) -> list[Row]:
        title = f"{kind}, {number} checkpoints of {answers} answers"
        draw, parts, told, covered, known = generator(title), SHAPES[kind], list[bool](), list[bool](), list[bool]()
        for _ in range(repetitions):
            spread = (np.linspace(0, 10_000, number), np.append(0, np.geomspace(10, 10_000, number - 1)))
            steps, level = spread[draw.integers(2)].round(), draw.uniform(0.1, 0.5)
            size = min(draw.uniform(2, 10) * np.sqrt(2 * level * (1 - level) / answers), 0.95 - level)
            place = 0 if kind == "first gap" else int(draw.integers(1, number - 1 - len(parts)))
            made = np.append(np.zeros(place + 1), [*parts, *np.ones(number)])[:number]
            if kind == "growing":
                made, size = _grown(steps / steps[-1], draw), draw.uniform(0.1, 0.45)
            elif not parts:
                size = 0.0
            values = draw.binomial(answers, level + size * made) / answers
            (model,) = find_transitions(steps, values[None], counts=answers)
            lo, hi = np.log1p(steps[[place, min(place + len(parts), number - 1)]])
            told.append(len(model.transitions) > 0)
            known.append(_is_told(values, made, answers))
            if parts and told[-1]:
                covered.append(any(one.times[1, 1] <= hi and one.times[1, 2] >= lo for one in model.transitions))
        if not parts:
            return [share(f"false onsets: counts, {title}", told, 0.05, "lower")]
        return [
            share(f"found: counts, {title}", told, float(np.mean(known)) - 0.1, "higher"),
            share(f"covered t50: counts, {title}", covered, 0.93, "higher"),
        ]

    return run


def _grown(part: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Return growth over the parts of a run, an exponential approach, a power, half a cosine or a logarithm, of which
    no two gaps make half: at so few checkpoints that is a change.
    """
    while True:
        scale, power = draw.uniform(0.15, 1), draw.uniform(0.3, 1.5)
        cosine, log = (1 - np.cos(np.pi * part)) / 2, np.log1p(30 * part) / np.log(31)
        grown = np.asarray((-np.expm1(-part / scale), part**power, cosine, log)[draw.integers(4)])
        if (grown[2:] - grown[:-2]).max() < 0.5 * grown[-1]:
            return grown


def _is_told(values: np.ndarray, made: np.ndarray, answers: int) -> bool:
    """Whether the likelihood ratio of a change of a known place and shape is beyond that of .95 of nulls."""
    weight = 1 / np.square(binomial_errors(values, answers))
    away = made - np.average(made, weights=weight)
    ratio = (weight @ (away * values)) ** 2 / (weight @ away**2)
    return bool(ratio > scipy.stats.chi2.ppf(0.95, 1))
