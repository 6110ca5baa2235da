"""Lineages of attention: planted swaps, merges, splits, births, deaths, permutations, and histories without any."""

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from evidence.calibration.cases import Generator, checkpoints, correlated
from evidence.calibration.onsets import Job, generator
from evidence.calibration.rows import Row, share
from stagewise.findings.lineage import Lineage, find_lineage

FEATURES, HEADS, NUMBER = 12, 6, 60
"""Offsets of a profile, heads, checkpoints."""

EVEN = np.full(FEATURES, 1 / FEATURES)
AWAY = 4
"""Checkpoints by which an event may be found early or late, beyond its own duration."""


class History(NamedTuple):
    """Profiles [step, head, offset], and the events in them: what, of which heads, at which checkpoint."""

    profiles: np.ndarray
    events: list[tuple[str, set[int], int]]


def kind(number: int, mass: float = 0.85) -> np.ndarray:
    """Return a profile with so much of its mass on one offset."""
    return np.asarray((1 - mass) * EVEN + mass * (np.arange(FEATURES) == number))


def moved(start: list[np.ndarray], moves: list[tuple[int, int, np.ndarray]], width: float) -> np.ndarray:
    """Return profiles that start somewhere and go elsewhere: (head, checkpoint, profile) in their order."""
    profiles = np.tile(np.array(start), (NUMBER, 1, 1))
    for head, at, target in moves:
        way = 1 / (1 + np.exp(-np.clip((np.arange(NUMBER) - at) / max(width, 1e-3), -50, 50)))[:, None]
        profiles[:, head] = (1 - way) * profiles[:, head] + way * target
    return profiles


def _swap(g: Generator, width: float) -> History:
    at = int(g.integers(15, 45))
    start = [kind(0), kind(1), *[EVEN] * 4]
    return History(moved(start, [(0, at, kind(1)), (1, at, kind(0))], width), [("swap", {0, 1}, at)])


def _merge(g: Generator, width: float) -> History:
    at = int(g.integers(15, 45))
    start = [kind(0), kind(0), kind(1), kind(1), EVEN, EVEN]
    return History(moved(start, [(2, at, kind(0)), (3, at, kind(0))], width), [("merge", {2, 3}, at)])


def _split(g: Generator, width: float) -> History:
    at = int(g.integers(15, 45))
    start = [*[kind(0)] * 4, EVEN, EVEN]
    return History(moved(start, [(0, at, kind(2)), (1, at, kind(2))], width), [("split", {0, 1}, at)])


def _birth(g: Generator, width: float) -> History:
    at, head = int(g.integers(15, 45)), int(g.integers(HEADS))
    return History(moved([EVEN] * HEADS, [(head, at, kind(3))], width), [("birth", {head}, at)])


def _death(g: Generator, width: float) -> History:
    at = int(g.integers(15, 45))
    return History(moved([kind(0), *[EVEN] * 5], [(0, at, EVEN)], width), [("death", {0}, at)])


def _permuted(g: Generator, width: float) -> History:
    """All heads of three kinds go round at once: no kind comes or goes."""
    at = int(g.integers(15, 45))
    start = [kind(0), kind(1), kind(2), *[EVEN] * 3]
    moves = [(head, at, kind((head + 1) % 3)) for head in range(3)]
    return History(moved(start, moves, width), [("swap", {0, 1, 2}, at)])


def _long(g: Generator, width: float) -> History:
    """Two births, a head that joins the first kind, a merge of the second one into it, and a split."""
    at = [int(t + g.integers(-2, 3)) for t in (8, 18, 28, 38, 48)]
    moves = [(0, at[0], kind(0)), (1, at[1], kind(1)), (2, at[2], kind(0)), (1, at[3], kind(0)), (2, at[4], kind(4))]
    names = ("birth", "birth", "move", "merge", "split")
    events = [(name, {head}, t) for name, (head, t, _) in zip(names, moves, strict=True)]
    return History(moved([EVEN] * HEADS, moves, width), events)


def _together(g: Generator, width: float) -> History:
    at = int(g.integers(15, 45))
    return History(moved([EVEN] * HEADS, [(head, at, kind(0)) for head in range(HEADS)], 4 * width), [])


def _flicker(g: Generator, _: float) -> History:
    """A head whose pattern stays as far from the others' as kinds are apart."""
    mass = g.uniform(0.3, 0.5)
    return History(moved([kind(0, mass), *[EVEN] * 5], [], 1.0), [])


PLANTED: dict[str, Callable[[Generator, float], History]] = {
    "swap": _swap,
    "merge": _merge,
    "split": _split,
    "birth": _birth,
    "death": _death,
    "permuted heads": _permuted,
    "a long history": _long,
    "all move together": _together,
    "flicker at the threshold": _flicker,
}
NOISES = {"white .01": (0.0, 0.01), "white .03": (0.0, 0.03), "AR .8 of .02": (0.8, 0.02)}
"""Noise of the masses: correlation and deviation."""


def table(profiles: np.ndarray) -> pd.DataFrame:
    """Return the rows of `PatternClusters.profile`: profiles [step, head, offset]."""
    steps = checkpoints("log", NUMBER).astype(int)
    index = pd.MultiIndex.from_product(
        [steps, range(profiles.shape[1]), [f"offset {k}" for k in range(FEATURES)]], names=["step", "head", "feature"]
    )
    rows = pd.DataFrame({"value": profiles.ravel()}, index=index).reset_index()
    return rows.assign(run="run", probe="PatternClusters", quantity="profile", layer=0)


def jobs() -> Iterator[tuple[str, Job]]:
    """Yield every case by its name."""
    for name in PLANTED:
        yield f"lineage {name}", functools.partial(_lineages, name)


def _lineages(name: str, repetitions: int) -> list[Row]:
    rows: list[Row] = []
    for noise, (rate, deviation) in NOISES.items():
        g, found, false, any_event = generator(f"lineage {name} {noise}"), [], [], []
        for _ in range(repetitions):
            width = float(g.choice([0.0, 0.5, 1.5]))
            history = PLANTED[name](g, width)
            added = [[correlated(g, NUMBER, rate, deviation) for _ in range(FEATURES)] for _ in range(HEADS)]
            masses = (history.profiles + np.moveaxis(np.array(added), -1, 0)).clip(0)
            lineage = find_lineage(table(masses / masses.sum(-1, keepdims=True)))
            right = matched(lineage, history, AWAY + 3 * width)
            found += [i in right.values() for i in range(len(history.events))]
            false += [i not in right for i in range(len(lineage.events))]
            any_event.append(len(lineage.events) > 0)
        title = f"lineage, {name}, {noise}"
        if found:
            rows.append(share(f"events found: {title}", found, 0.95, "higher"))
            rows.append(share(f"false events: {title}", false, 0.05, "lower"))
        else:
            rows.append(share(f"histories with an event: {title}", any_event, 0.05, "lower"))
    return rows


def matched(lineage: Lineage, history: History, away: float) -> dict[int, int]:
    """Return which event of a lineage is which planted one."""
    steps = checkpoints("log", NUMBER)
    result: dict[int, int] = {}
    for i, row in enumerate(lineage.events.to_dict("records")):
        heads = {int(name.removeprefix("L0H")) for name in str(row["heads"]).split()}
        at = int(np.searchsorted(steps, row["first_step_after"]))
        for j, (event, of, t) in enumerate(history.events):
            if j not in result.values() and (row["event"], heads) == (event, of) and abs(at - t) <= away:
                result[i] = j
                break
    return result
