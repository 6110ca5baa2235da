"""What each ingredient of the search for transitions is worth: the same curves searched with and without it.

`python -m calibration.ablation [repetitions] [variants]` prints a table of the search as it is, and of each variant by
what it changes. "whole" is the search as it is; without names all variants are run.
"""

import contextlib
import functools
import itertools
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pandas as pd

from calibration import apart, onsets
from calibration.cases import NOISES, PLANTED, SMOOTH, Generator, Planted, checkpoints, correlated, logistic
from calibration.onsets import RISE, _covers, decided, generator
from calibration.specials import HELD_OUT, SPECIALS
from stagewise.statistics import Noise, StageCriteria, _refinement, _scan, _transitions, find_transitions
from stagewise.statistics import _constants as c
from stagewise.statistics._cells import Cells, around
from stagewise.statistics._noise import residual
from stagewise.statistics._noise.residual import KINDS
from stagewise.statistics._shapes import IN_STEPS, RAMP, RAMP_IN_STEPS, Shapes
from stagewise.table import Quantity

PARTS = ("t10", "t50", "t90")
LOGGED = Quantity("value", progress="up")
CHANGES = 0.02
"""By how much a variant changes a row that is shown."""

JUMP, CUTS = 563.0, np.geomspace(2500, 50000, 10)
"""The step of a jump with slow growth after it, and the last steps of the same run, stopped at ten places."""


class Case(NamedTuple):
    """Curves [curve, step] with what was planted in each; None of a null."""

    steps: np.ndarray
    curves: np.ndarray
    planted: list[Planted] | None = None


class Score(NamedTuple):
    """Of a case, or several: shares of its curves, or of its transitions, and how wide intervals of t50 are.

    `false` is that of curves without a transition that have an onset, `logged` that of the same without a unit;
    `extra` those with more onsets than planted. The width is in e-folds, the median over those found.
    """

    false: float = np.nan
    logged: float = np.nan
    found: float = np.nan
    extra: float = np.nan
    t10: float = np.nan
    t50: float = np.nan
    t90: float = np.nan
    width: float = np.nan
    seconds: float = np.nan


def _steps(spacing: str, number: int) -> np.ndarray:
    return apart.SPACINGS[spacing] if spacing in apart.SPACINGS else checkpoints(spacing, number)


NULLS: list[tuple[str, str, int]] = [
    *(("flat, white", "lin", 60), ("linear drift, AR .9", "lin", 60), ("log drift, AR .5", "lin", 60)),
    *(("exponential, growing", "log", 60), ("power decay, AR .9", "log", 60), ("exponential, AR .5", "lin", 100)),
    *(("power growth, AR .5", "log", 31), ("log drift, white", "lin", 12), ("exponential, white", "log", 12)),
    *(("random walk", "lin", 60), ("slow OU", "log", 60), ("exponential fall, then a slow rise", "log", 60)),
    *(("two exponentials", "lin", 60), ("a burst of noise on a drift", "lin", 60), ("t^1.2, white", "lin", 31)),
    *(("noise whose level jumps", "log", 60), ("two outlying checkpoints", "lin", 60), ("a dip of three", "log", 60)),
    *(("stretched exponential", "log", 60), ("heavy tails (t3) on a log drift", "lin", 60)),
    ("drift with noise of t2", "late", 61),
    *(("saturating accuracy of 64 answers", "gaps", 60), ("loss with noise of 3 % of itself", "Pythia", 154)),
]
"""Curves without a transition, by their name in the calibration and their checkpoints."""


def _stairs(g: Generator, t: np.ndarray, number: int) -> Planted:
    places = np.linspace(0.12, 0.85, number)
    rises = [apart._sigmoid(g, t, place - 0.02, place + 0.02) for place in places]
    return Planted(sum((one.values for one in rises), 0 * t), np.concatenate([one.times for one in rises]))


def _two_close(g: Generator, t: np.ndarray) -> Planted:
    place = g.uniform(0.3, 0.55)
    a, b = (apart._sigmoid(g, t, part, part + 1e-6) for part in (place, place + 0.12))
    return Planted(a.values + b.values, np.concatenate([a.times, b.times]))


def _hockey(g: Generator, t: np.ndarray) -> Planted:
    """A curve that is flat and then grows, fast and ever slower, until the run ends."""
    u = np.log1p(t)
    at = float(np.interp(g.uniform(0.35, 0.65) * (len(t) - 1), np.arange(len(t)), u))
    values = ((u - at).clip(min=0) / (u[-1] - at)) ** 0.7
    return Planted(values, np.expm1(at + (u[-1] - at) * np.array([[0.1, 0.5, 0.9]]) ** (1 / 0.7)))


def _damped(g: Generator, t: np.ndarray) -> Planted:
    at = apart.place(g, t, 0.2, 0.5)
    after = (np.log1p(t) - at.u).clip(min=0) / at.width
    way = 1 - np.exp(-2 * after) * np.cos(5 * after)
    fine = np.linspace(0, 3, 3001)
    curve = 1 - np.exp(-2 * fine) * np.cos(5 * fine)
    return Planted(way, np.expm1(at.u + at.width * np.array([[fine[np.argmax(curve >= p)] for p in (0.1, 0.5, 0.9)]])))


_HERE: dict[str, Callable[[Generator, np.ndarray], Planted]] = {
    "staircase of five": lambda g, t: _stairs(g, t, 5),
    "two close rises": _two_close,
    "hockey stick": _hockey,
    "damped approach": _damped,
}

RISES: list[tuple[str, str, str, int]] = [
    *(("sigmoid .05", "5 times", "lin", 60), ("sigmoid .1", "20 times", "log", 31)),
    *(("sigmoid .3", "20 times", "log", 60), ("sigmoid of a decade", "20 times", "log", 60)),
    *(("sigmoid .05", "20 times", "lin", 12), ("sigmoid .1", "20 times", "log", 12)),
    *(("sigmoid .3", "20 times", "lin", 31), ("ramp", "20 times, AR .6", "lin", 60)),
    *(("tail t^-1", "20 times", "log", 60), ("tail t^-.5", "20 times", "log", 60)),
    *(("rise and fall", "20 times", "lin", 60), ("late, at 85 %", "20 times", "log", 60)),
    *(("power law and jump", "20 times, AR .6", "lin", 60), ("double descent", "20 times", "log", 60)),
    *(("Gompertz", "64 answers", "gaps", 60), ("escape from a saddle", "64 answers", "Pythia", 154)),
    *(("overshoot that settles", "20 times", "late", 61), ("staircase of three", "20 times", "late", 61)),
    *(("staircase of five", "20 times", "lin", 100), ("two equal rises", "20 times", "log", 31)),
    *(("two close rises", "20 times", "log", 60), ("hockey stick", "20 times", "log", 60)),
    *(("hockey stick", "20 times", "lin", 60), ("damped approach", "20 times", "log", 60)),
    *(("sigmoid .1", "20 times, AR .6", "log", 100), ("sigmoid .05", "5 times", "log", 60)),
]
"""Planted curves, by their name, their noise, and their checkpoints."""

_NOISE = {"20 times": (20, 0.0), "20 times, AR .6": (20, 0.6), "5 times": (5, 0.0)}


def _null(name: str, spacing: str, number: int, repetitions: int) -> Case:
    steps, g = _steps(spacing, number), generator(f"ablation {name} {spacing} {number}")
    made = {**SPECIALS, **HELD_OUT, **apart.NULLS}.get(name)
    if made is None:
        shape, noise = name.rsplit(", ", 1)
        made = lambda g, t: SMOOTH[shape](g, t) + NOISES[noise](g, len(t))  # noqa: E731
    return Case(steps, np.array([made(g, steps) for _ in range(repetitions)]))


def _rise(name: str, noise: str, spacing: str, number: int, repetitions: int) -> Case:
    steps, g = _steps(spacing, number), generator(f"ablation {name} {noise} {spacing} {number}")
    make = {**PLANTED, **apart.PLANTED, **_HERE}[name]
    planted = [make(g, steps) for _ in range(repetitions)]
    if noise in _NOISE:
        ratio, rate = _NOISE[noise]
        deviation = RISE / ratio / np.sqrt(1 - rate**2)
        curves = [0.1 + RISE * one.values + correlated(g, len(steps), rate, deviation) for one in planted]
    else:
        curves = [apart.VALUES[noise](g, one.values) for one in planted]
    return Case(steps, np.array(curves), planted)


def _cut(growth: float, last: float, repetitions: int) -> Case:
    """A jump of a half with slow growth after it, and the noise of the checkpoints that all cuts share."""
    g, curves = generator(f"ablation cut {growth}"), []
    steps = np.unique(np.concatenate([[0], np.geomspace(10, CUTS[-1], 91)]).round())
    for _ in range(repetitions):
        after = np.log((1 + steps) / (1 + JUMP)).clip(min=0)
        curves.append(0.5 * logistic(steps, JUMP, 0.1) + growth * after + 0.03 * g.standard_normal(len(steps)))
    times = np.expm1(np.log1p(JUMP) + 0.1 * np.log([[1 / 9, 1, 9]]))
    kept = steps <= last
    return Case(steps[kept], np.array(curves)[:, kept], [Planted(curves[0][kept], times)] * repetitions)


def cases(repetitions: int) -> Iterator[tuple[str, Case]]:
    """Yield every case by its name."""
    for null in NULLS:
        yield "null " + " ".join(map(str, null)), _null(*null, 2 * repetitions)
    for rise in RISES:
        yield "rise " + " ".join(map(str, rise)), _rise(*rise, repetitions)
    for growth, last in itertools.product((0.1, 0.2, 0.4), CUTS):
        yield f"cut growth {growth} at {last:.0f}", _cut(growth, last, max(repetitions // 4, 2))


def scored(case: Case) -> tuple[Score, list[float]]:
    """Return the score of a case, and the log of the median t50 of each curve's first planted transition."""
    start = time.process_time()
    searched = find_transitions(case.steps, case.curves)
    seconds = (time.process_time() - start) / len(case.curves)
    found_in = decided(case.steps, case.curves, searched)
    if case.planted is None:
        logged = decided(case.steps, case.curves, searched, declared=LOGGED)
        false, unit = (float(np.mean([len(one) > 0 for one in frames])) for frames in (found_in, logged))
        return Score(false=false, logged=unit, seconds=seconds), []
    found, held, widths, halves = [], [], [], []
    for truth, frame in zip(case.planted, found_in, strict=True):
        rows = [_nearest(case.steps, times, frame) for times in truth.times]
        found += [row is not None for row in rows]
        halves.append(float(np.log1p(rows[0]["t50"])) if rows[0] is not None else np.nan)
        for row, times in zip(rows, truth.times, strict=True):
            if row is not None:
                held.append([_covers(row, part, at, case.steps[-1]) for part, at in zip(PARTS, times, strict=True)])
                ends = np.log1p(np.minimum([row["t50_lo"], row["t50_hi"]], case.steps[-1]))
                widths.append(float(np.diff(ends)[0]))
    extra = [len(frame) > len(truth.times) for truth, frame in zip(case.planted, found_in, strict=True)]
    covered = dict(zip(PARTS, np.mean(held, 0).tolist(), strict=True)) if held else {}
    width = float(np.median(widths)) if widths else np.nan
    share, more = float(np.mean(found)), float(np.mean(extra))
    return Score(found=share, extra=more, **covered, width=width, seconds=seconds), halves


def _nearest(steps: np.ndarray, times: np.ndarray, frame: pd.DataFrame) -> "pd.Series[float] | None":
    """Return the onset that is nearest to a planted transition, if it is near."""
    u, half = np.log1p(steps), np.log1p(times[1])
    spacing = float(np.interp(half, (u[1:] + u[:-1]) / 2, np.diff(u)))
    away = np.abs(np.log1p(frame["t50"].to_numpy(float)) - half)
    return frame.iloc[int(away.argmin())] if len(away) and away.min() < max(0.4, 2 * spacing) else None


def table(repetitions: int, kinds: tuple[str, ...]) -> pd.DataFrame:
    """Return the score of each case: those of a jump that is cut at ten places are one row for each growth.

    Theirs has also the largest distance between medians of t50 among the places, in spacings of checkpoints, as the
    median over curves: `apart`.
    """
    rows: dict[str, list[Score]] = {}
    halves: dict[str, list[list[float]]] = {}
    for name, case in cases(repetitions):
        if not name.startswith(kinds):
            continue
        score, places = scored(case)
        key = name.split(" at ")[0] if name.startswith("cut") else name
        rows.setdefault(key, []).append(score)
        halves.setdefault(key, []).append(places)
    frame = pd.DataFrame({key: pd.DataFrame(scores).mean() for key, scores in rows.items()}).T
    spacing = np.log(CUTS[-1] / 10) / 90
    for key, each in halves.items():
        if len(each) > 1:
            frame.loc[key, "apart"] = float(np.nanmedian(np.nanmax(each, 0) - np.nanmin(each, 0))) / spacing
    return frame


def _noises(away: Callable[[Noise], bool]) -> Callable[[], Any]:
    """Return a context in which some kinds of noise are never likely."""

    def context() -> Any:
        stack, unlikely = contextlib.ExitStack(), np.where([away(kind) for kind in KINDS], 1e9, 0.0)
        for module, name in ((_scan, "likelihoods"), (_refinement, "restricted_likelihoods")):
            likely = getattr(module, name)
            changed = functools.partial(_less, likely, unlikely)
            stack.enter_context(mock.patch.object(module, name, changed))
        return stack

    return context


def _less(likely: Callable[..., np.ndarray], unlikely: np.ndarray, *arguments: Any) -> np.ndarray:
    logs = likely(*arguments)
    return np.asarray(logs - unlikely.reshape(-1, *[1] * (logs.ndim - 1)))


def _families_without(*tails: float) -> Any:
    def fewer(shape: Shapes, u: np.ndarray) -> Cells:
        cells = around(shape, u)
        return cells.take(~np.isin(cells.tail, tails))

    return mock.patch.object(_refinement, "around", fewer)


def _constants(**values: Any) -> Callable[[], Any]:
    def context() -> Any:
        stack = contextlib.ExitStack()
        for name, value in values.items():
            stack.enter_context(mock.patch.object(c, name, value))
        return stack

    return context


def _criteria(**values: Any) -> Callable[[], Any]:
    return lambda: mock.patch.object(onsets, "DEFAULT", StageCriteria(**values))


VARIANTS: Mapping[str, Callable[[], Any]] = {
    "whole": contextlib.nullcontext,
    "no two-column rivals": lambda: mock.patch.object(
        _transitions, "superfluous", lambda curve, basis, floor, full, rows: [0.0] * len(rows)
    ),
    "no several at once": lambda: mock.patch.object(
        _transitions._Search, "together", lambda self, shape, null, one, p, level: ([shape], p)
    ),
    "no random walks": _criteria(walk=0),
    "no growing noise": _noises(lambda kind: kind.growth != 0),
    "white noise": _noises(lambda kind: kind.correlation != 0),
    "no HC2": lambda: mock.patch.object(_refinement, "_excess", return_value=1.0),
    "tempered by .65": _constants(TEMPER=0.65),
    "no tempering": _constants(TEMPER=1.0),
    "no outlier filter": lambda: mock.patch.object(_transitions, "without_outliers", lambda curves: curves),
    "no last values": lambda: mock.patch.object(residual, "_without_last", lambda curves, _: curves),
    "no ramps": lambda: _families_without(RAMP, RAMP_IN_STEPS),
    "no shapes in steps": lambda: _families_without(IN_STEPS, RAMP_IN_STEPS),
    "logistics and abrupt": lambda: _families_without(RAMP, IN_STEPS, RAMP_IN_STEPS),
    "no share": _criteria(share=0),
    "no standing out": _criteria(stands_out=0),
    "no lasting": _criteria(lasting=0),
    "one background": _constants(LIKELY_BACKGROUNDS=1),
    "one noise": _constants(MOST_NOISES=1),
    "no margin": _constants(INTERVAL_MARGIN=0.0),
}
"""Variants of the search: what takes an ingredient out while its context lasts."""

FOLDER = Path("runs/ablation")
KINDS_OF_ROWS = ("null", "rise", "cut")


def main(repetitions: int, names: list[str]) -> None:
    """Print the rows of the search as it is, and those of each variant that it changes."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    kinds = tuple(name for name in names if name in KINDS_OF_ROWS) or KINDS_OF_ROWS
    for name in [name for name in names if name not in kinds] or VARIANTS:
        with VARIANTS[name]():
            frame = table(repetitions, kinds)
        frame.to_csv(FOLDER / f"{name}.csv")
        means = frame.groupby(frame.index.str.split().str[0]).mean()
        whole = pd.read_csv(FOLDER / "whole.csv", index_col=0)
        whole = whole.loc[frame.index]
        changed = (frame - whole).drop(columns=["seconds"]).abs().max(axis=1) > CHANGES
        shown = (frame if name == "whole" else (frame - whole)[changed], means)
        print(f"\n{name}", *(each.round(3).to_string(na_rep="") for each in shown), sep="\n", flush=True)


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    main(numbers[0] if numbers else 20, [word for word in sys.argv[1:] if not word.isdigit()])
