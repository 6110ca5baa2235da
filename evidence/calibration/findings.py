"""Boundaries of stages, events of heads, exponents of laws and tables of scores, on planted runs."""

import functools
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd

from evidence.calibration.cases import LAST, Generator, checkpoints, correlated, logistic
from evidence.calibration.onsets import Job, generator
from evidence.calibration.rows import Row, share
from stagewise.findings._frames import by_role
from stagewise.findings._roles import head_events
from stagewise.findings.onsets import find_onsets
from stagewise.findings.stages import find_stages
from stagewise.papers.power_law import fit_interval_censored
from stagewise.table import roles_in

NAMES = ("one", "two", "all")
STEPS = np.unique(np.concatenate([[0, 1, 2, 4, 8], np.arange(15, 901, 15)])).astype(float)
FALLING = 2.6 - 2.3 * logistic(STEPS, 150, 0.5)


def table(curves: np.ndarray) -> pd.DataFrame:
    """Return KL to three nested references: curves [reference, step]."""
    frames = [
        pd.DataFrame({"step": STEPS.astype(int), "reference": name, "nested": i, "value": values})
        for i, (name, values) in enumerate(zip(NAMES, curves, strict=True), start=1)
    ]
    return pd.concat(frames, ignore_index=True).assign(run="run", probe="KLToReference", quantity="kl")


def three_stages() -> np.ndarray:
    """Return curves whose first has its minimum between 40 and 200, whose second between 200 and 450."""
    first, second, third = (logistic(STEPS, at, 0.1) for at in (40, 200, 450))
    return np.array(
        [
            2.6 - 1.8 * first + 1.0 * second + 0.3 * third,
            2.7 - 1.7 * first - 0.7 * second + 0.4 * third,
            2.7 - 1.7 * first - 0.7 * second - 0.25 * third,
        ]
    )


def _noise(g: Generator, correlation: float, deviation: float) -> np.ndarray:
    return np.array([correlated(g, len(STEPS), correlation, deviation) for _ in NAMES])


def _overfit(g: Generator) -> np.ndarray:
    late = 0.8 * (np.maximum(STEPS - 400, 0) / 500) ** 1.5
    late = late * np.array([[1.3], [1.1], [1.0]])
    return np.asarray(FALLING + late + _noise(g, 0.0, 0.01))


FALSE: dict[str, Callable[[Generator], np.ndarray]] = {
    "all fall together, AR .9 of .1": lambda g: FALLING + _noise(g, 0.9, 0.1),
    "all fall together, white .03": lambda g: FALLING + _noise(g, 0.0, 0.03),
    "all overfit": _overfit,
    "random walk of .03": lambda g: (
        2.6 - np.linspace(0, 2, len(STEPS)) + 0.03 * g.standard_normal((3, len(STEPS))).cumsum(1)
    ),
}
TRUE = {"white .005": (0.0, 0.005), "white .05": (0.0, 0.05), "white .1": (0.0, 0.1), "AR .9 of .03": (0.9, 0.03)}


def jobs() -> Iterator[tuple[str, Job]]:
    """Yield every case by its name."""
    for name in FALSE:
        yield f"boundaries of none {name}", functools.partial(_no_boundary, name)
    for name in TRUE:
        yield f"boundaries {name}", functools.partial(_boundaries, name)
    for number in (24, 12, 8):
        yield f"exponents of {number} runs", functools.partial(_exponents, number)
    yield "head events", _head_events
    for spacing in ("lin", "log"):
        yield f"a table of 144 scores {spacing}", functools.partial(_discoveries, spacing)


def _no_boundary(name: str, repetitions: int) -> list[Row]:
    g = generator(name)
    found = [len(find_stages(table(FALSE[name](g)))) > 1 for _ in range(repetitions)]
    return [share(f"false boundaries: {name}", found, 0.05, "lower")]


def _boundaries(name: str, repetitions: int) -> list[Row]:
    g, curves = generator(name), three_stages()
    fine = np.linspace(1, 900, 9000)
    truth = [fine[np.interp(np.log1p(fine), np.log1p(STEPS), curve).argmin()] for curve in curves[:2]]
    found, covered = [], []
    for _ in range(repetitions):
        points = find_stages(table(curves + _noise(g, *TRUE[name]))).turning_points.iloc[:2]
        found += points["boundary"].tolist()
        covered += ((points["lo"] <= truth) & (truth <= points["hi"])).tolist()
    return [
        share(f"boundaries found: three stages, {name}", found, 0.9, "higher"),
        share(f"boundaries covered: three stages, {name}", covered, 0.92, "higher"),
    ]


def _exponents(number: int, repetitions: int) -> list[Row]:
    covered = []
    for seed in range(repetitions):
        g = np.random.default_rng(seed)
        runs = pd.DataFrame({"T": np.exp(g.uniform(4, 7, number)), "d": np.exp(g.uniform(2, 4, number))})
        time = 1.5 * runs["T"] * runs["d"] ** 0.5 * np.exp(0.3 * g.standard_normal(number))
        law = fit_interval_censored(runs.assign(lo=time * 0.95, hi=time * 1.05), "T, d")
        covered += [law.lo[1] <= 1 <= law.hi[1], law.lo[2] <= 0.5 <= law.hi[2]]
    return [share(f"exponents covered: {number} runs", covered, 0.92, "higher")]


def _head_events(repetitions: int) -> list[Row]:
    g, rows = generator("heads"), []
    cases = {"a share of .5, noise .05": (0.5, 0.2), "two shares of .5, noise .05": (0.5, 0.5)}
    for name, levels in cases.items():
        any_event = [len(_events(_shares(g, levels, np.zeros(60)))) > 0 for _ in range(repetitions)]
        rows.append(share(f"false head events: {name}", any_event, 0.05, "lower"))
    moves = [_events(_shares(g, (0.8, 0.1), 0.6 * (np.arange(60) >= 30))) for _ in range(repetitions)]
    held = [len(one) == 1 and one["last_step_before"][0] <= 30 <= one["first_step_after"][0] + 1 for one in moves]
    return [*rows, share("head events found, alone and in place: .8 to .2, noise .05", held, 0.95, "higher")]


def _events(shares: pd.DataFrame) -> pd.DataFrame:
    return head_events(by_role(shares, roles_in(shares)))


def _shares(g: Generator, levels: tuple[float, float], move: np.ndarray) -> pd.DataFrame:
    curves = [levels[0] - move, levels[1] + move]
    frames = [
        pd.DataFrame({"step": range(60), "relation": name, "value": curve + 0.05 * g.standard_normal(60)})
        for name, curve in zip(("I(1)", "I(2)"), curves, strict=True)
    ]
    return pd.concat(frames).assign(run="run", probe="HeadSpecialisation", quantity="share", layer=0, head=0)


def _discoveries(spacing: str, repetitions: int) -> list[Row]:
    """Fourteen onsets among 144 scores; a twentieth of the repetitions, since each has 144 curves."""
    steps, false, found = checkpoints(spacing, 60), [], []
    for seed in range(max(1, repetitions // 20)):
        g = np.random.default_rng(seed)
        curves = np.array(
            [0.1 + 0.3 * np.log1p(steps) / np.log1p(LAST) + correlated(g, 60, 0.6, 0.003) for _ in range(144)]
        )
        for i in range(14):
            curves[i] += 0.6 * logistic(steps, g.uniform(300, 1500), 0.08)
        frames = [pd.DataFrame({"step": steps, "value": values, "head": head}) for head, values in enumerate(curves)]
        scores = pd.concat(frames).assign(run="run", probe="AttentionTo", quantity="mass")
        onsets = find_onsets(scores.assign(relation="induction", layer=0))
        heads = onsets.loc[onsets["onset"], "head"].to_numpy()
        false += (heads >= 14).tolist()
        found += [i in heads for i in range(14)]
    return [
        share(f"false discoveries: 130 of 144 scores drift, AR .6 of .003, {spacing} 60", false, 0.05, "lower"),
        share(f"found among 144 scores, {spacing} 60", found, 0.9, "higher"),
    ]
