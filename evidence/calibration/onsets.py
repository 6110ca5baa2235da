"""Onsets on planted curves: how often there are false ones, how often true ones are found, and covered in time."""

import itertools
import zlib
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment
from scipy.stats import false_discovery_control

from evidence.calibration.cases import LAST, NOISES, PLANTED, SMOOTH, Planted, checkpoints, correlated
from evidence.calibration.rows import Row, share
from evidence.calibration.specials import HELD_OUT, SPECIALS
from stagewise.findings._frames import TIMES
from stagewise.findings._known_causes import coincidence
from stagewise.findings.onsets import rejection
from stagewise.findings.scores import Curve
from stagewise.statistics import CurveModel, find_transitions
from stagewise.table import Quantity

RISE = 0.6
"""Size of a planted transition."""

RISES = {"20 times": (20, 0.0), "20 times, AR .6": (20, 0.6), "5 times": (5, 0.0)}
"""Name -> how many deviations of the innovations a transition has, and the correlation of the noise."""

NUMBERS = (60, 20, 150, 12, 16)
"""Numbers of checkpoints of nulls."""

FEW = (12, 16)
"""Numbers of checkpoints at which planted transitions of 20 deviations are looked for, beside 60."""

LOGGED = "logged, "
"""What the rows begin with of the same curves as if they had been logged: without a unit."""

SCORE, VALUE = Quantity("score", range=(0, 1), progress="up"), Quantity("value", progress="up")
"""What scores declare, of which a change of a tenth counts, and what is known of a logged curve."""

Job = Callable[[int], list[Row]]


def generator(name: str) -> np.random.Generator:
    """Return the generator of a case, the same in every order of cases."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def alone(steps: np.ndarray, curves: np.ndarray, causes: dict[str, float] | None = None) -> list[pd.DataFrame]:
    """Return the onsets of each curve as if it were alone in its table, without the cost of a table for each."""
    return decided(steps, curves, find_transitions(steps, curves), causes)


def decided(
    steps: np.ndarray,
    curves: np.ndarray,
    models: list[CurveModel],
    causes: dict[str, float] | None = None,
    declared: Quantity = SCORE,
) -> list[pd.DataFrame]:
    """Return the onsets of curves by their models, as scores, or as what is declared; none is of a head."""
    u, results = np.log1p(steps), []
    columns = [name + end for name in TIMES for end in ("", "_lo", "_hi")]
    for values, model in zip(curves, models, strict=True):
        curve = Curve("Own", "value", {}, pd.DataFrame({"step": steps, "value": values}), declared)
        adjusted = false_discovery_control([one.p_value for one in model.transitions]) if model.transitions else ()
        rows = []
        for one, p in zip(model.transitions, adjusted, strict=True):
            if rejection(one, float(p), curve) is None and not coincidence(one, causes or {}, steps):
                times = np.expm1(np.where(one.times < u[-1], one.times, np.inf))
                rows.append(dict(zip(columns, times.ravel(), strict=True)) | {"t50": np.expm1(one.times[1, 0])})
        results.append(pd.DataFrame(rows, columns=columns, dtype=float))
    return results


def jobs() -> Iterator[tuple[str, Job]]:
    """Yield every case by its name."""
    spacings = ("lin", "log")
    for number, spacing, noise in itertools.product(NUMBERS, spacings, NOISES):
        yield f"null {noise} {spacing} {number}", _nulls(spacing, number, noise)
    for spacing, name, noise in itertools.product(spacings, PLANTED, RISES):
        yield f"planted {name} {noise} {spacing}", _planted(name, noise, spacing, 60)
    for number, spacing, name in itertools.product(FEW, spacings, PLANTED):
        yield f"planted {name} {spacing} {number}", _planted(name, "20 times", spacing, number)
    for spacing, name in itertools.product(spacings, SPECIALS):
        yield f"null {name} {spacing}", _special(name, spacing, "null")
    for spacing, name in itertools.product(spacings, HELD_OUT):
        yield f"held out {name} {spacing}", _special(name, spacing, "held out")


def _nulls(spacing: str, number: int, noise: str) -> Job:
    def run(repetitions: int) -> list[Row]:
        steps, rows = checkpoints(spacing, number), []
        for shape, smooth in SMOOTH.items():
            name = f"false onsets: {shape}, {noise}, {spacing} {number}"
            g = generator(name)
            curves = np.array([smooth(g, steps) + NOISES[noise](g, number) for _ in range(repetitions)])
            rows += false_onsets(name, steps, curves)
        return rows

    return run


def _special(name: str, spacing: str, kind: str) -> Job:
    def run(repetitions: int) -> list[Row]:
        steps, title = checkpoints(spacing, 60), f"false onsets: {name}, {spacing} 60"
        g = generator(title)
        make = {**SPECIALS, **HELD_OUT}[name]
        curves = np.array([make(g, steps) for _ in range(repetitions)])
        causes = {"the learning-rate drop": 0.6 * LAST} if "learning-rate" in name else None
        title = title if kind == "null" else f"held out, {title}"
        return false_onsets(title, steps, curves, causes)

    return run


def false_onsets(name: str, steps: np.ndarray, curves: np.ndarray, causes: dict[str, float] | None = None) -> list[Row]:
    """Return how often curves have an onset, as scores and as logged ones.

    One within the first gap is no false one: where all of a rise lies before the second checkpoint, it is a jump there.
    """
    models, rows = find_transitions(steps, curves), []
    for start, declared in (("", SCORE), (LOGGED, VALUE)):
        onsets = decided(steps, curves, models, causes, declared)
        rows.append(share(start + name, [bool((one["t50"] > steps[1]).any()) for one in onsets], 0.05, "lower"))
    return rows


def _planted(name: str, noise: str, spacing: str, number: int) -> Job:
    ratio, correlation = RISES[noise]

    def run(repetitions: int) -> list[Row]:
        steps, title = checkpoints(spacing, number), f"{name}, {noise}, {spacing} {number}"
        g = generator(title)
        planted = [PLANTED[name](g, steps) for _ in range(repetitions)]
        deviation = RISE / ratio / np.sqrt(1 - correlation**2)
        curves = np.array(
            [0.1 + RISE * one.values + correlated(g, len(steps), correlation, deviation) for one in planted]
        )
        searched, goal = find_transitions(steps, curves), 0.8 if "-.5" in name else 0.9
        logged = decided(steps, curves, searched, declared=VALUE)
        more = [len(frame) > len(truth.times) for truth, frame in zip(planted, logged, strict=True)]
        return [
            *compared(title, steps, planted, decided(steps, curves, searched), goal),
            share(f"{LOGGED}more than planted: {title}", more, 0.02, "lower"),
        ]

    return run


def compared(
    title: str, steps: np.ndarray, planted: list[Planted], onsets: list[pd.DataFrame], goal: float
) -> list[Row]:
    """Return how often planted transitions are found, each by an onset of its own, how often more are, and how often
    their times are covered.
    """
    u = np.log1p(steps)
    found, covered, bias = [], [], []
    for truth, frame in zip(planted, onsets, strict=True):
        away = np.abs(np.log1p(truth.times[:, 1])[:, None] - np.log1p(frame["t50"].to_numpy(float)))
        assigned = dict(zip(*(each.tolist() for each in linear_sum_assignment(away)), strict=True))
        for i, times in enumerate(truth.times):
            spacing = float(np.interp(np.log1p(times[1]), (u[1:] + u[:-1]) / 2, np.diff(u)))
            found.append(i in assigned and bool(away[i, assigned[i]] < max(0.4, 2 * spacing)))
            if found[-1]:
                row = frame.iloc[int(assigned[i])]
                bias.append((np.log1p(row["t50"]) - np.log1p(times[1])) / spacing)
                covered.append(
                    [
                        _covers(row, part, time, steps[-1])
                        for part, time in zip(("t10", "t50", "t90"), times, strict=True)
                    ]
                )
    more = [len(frame) > len(truth.times) for truth, frame in zip(planted, onsets, strict=True)]
    rows = [share(f"found: {title}", found, goal, "higher"), share(f"more than planted: {title}", more, 0.02, "lower")]
    if len(covered) >= 5:
        parts = zip(("t10", "t50", "t90"), zip(*covered, strict=True), strict=True)
        rows += [share(f"covered {part}: {title}", list(hits), 0.92, "higher") for part, hits in parts]
        middle, error = float(np.median(bias)), 1.25 * float(np.std(bias)) / np.sqrt(len(bias))
        low, high = max(abs(middle) - 1.96 * error, 0.0), abs(middle) + 1.96 * error
        name = f"bias of t50 in spacings: {title}"
        rows.append(Row(name, round(abs(middle), 4), round(low, 4), round(high, 4), 0.25, "lower", len(bias)))
    return rows


def _covers(row: pd.Series, part: str, time: float, last: float) -> bool:
    """Whether an interval holds a time; one that is infinite holds all that come after the run."""
    return bool(min(row[f"{part}_lo"], last) <= time <= row[f"{part}_hi"])
