"""Changes of a run that its log shows without naming them: jumps of one row, the seam of a resumed run, batches."""

import itertools
import re
import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from stagewise.checkpoints._log_roles import COUNTED
from stagewise.learning_rates import SEEMS, Cause, numbered, of_setting

FEWEST, NEAR = 30, 1.1
"""Rows of a curve, and ratio of the steps of two neighbouring ones at most, for one row's jump to be no stage."""

SIDE, LASTING, ABRUPT, SHARP, FALLS = 4, 20, 2.0, 3.0, 3.0
"""Rows on either side of a jump; rows after it for which it lasts, by half at least; times by which it is larger than
the changes on its sides, and where no other curve jumps; and by which a curve falls on after it, in median changes.
"""

FACTORS = {
    float(np.log2(np.e)): "bits in place of nats",
    float(np.log(2)): "nats in place of bits",
    **{100.0**sign: "percent in place of shares, or the reverse," for sign in (1, -1)},
    **{2.0**power: "sums in place of means, or other batches," for power in range(-12, 13) if abs(power) > 1},
}
"""Factors between units of one quantity, or of a sum over a batch and its mean."""

EXACT = 0.02
"""Relative difference from such a factor."""

STEADY, MANY = 0.25, 3
"""Part of a jump by which a curve that does not take part moves at most, and curves from which on all are many."""

LEAST, SIZES = 3, 8
"""Rows for which batches have one size at least, and their sizes at most: of more there is a schedule, or packing."""

HELD_OUT, LOSS = (re.compile(words, re.IGNORECASE) for words in ("eval|val|test|held|dev", "loss|nll|entropy"))


class _Jump(NamedTuple):
    """A change of a curve between two rows that stays, the levels around it, and whether it falls on from there."""

    name: str
    lo: int
    hi: int
    before: float
    after: float
    falls_on: bool
    sharp: bool

    def overlaps(self, other: "_Jump") -> bool:
        """Whether both may be at one time."""
        return self.lo < other.hi and other.lo < self.hi

    @property
    def factor(self) -> str:
        """The units that it may be between, if any."""
        ratio = self.after / self.before if self.before * self.after > 0 else 1.0
        known = next((of for factor, of in FACTORS.items() if abs(ratio / factor - 1) <= EXACT), "")
        shares = min(self.before, self.after) <= 1 < max(self.before, self.after)
        return known if (shares if "percent" in known else LOSS.search(self.name)) else ""


def changes_in(curves: Mapping[str, tuple[pd.DataFrame, pd.DataFrame]]) -> dict[str, Cause]:
    """Return what one run's curves, as logged and by the rows that count, tell: the name of a change -> its step."""
    found = {name: at for whole, kept in [*curves.values()][::-1] for name, at in _seams(whole, kept).items()}
    numbers = {name: kept.dropna(subset="value") for name, (_, kept) in curves.items()}
    moving = {name: rows for name, rows in numbers.items() if len(rows) >= FEWEST and np.ptp(rows["value"]) > 0}
    jumps = [jump for name, rows in moving.items() for jump in _jumps(name, rows)]
    lost = [(name, step) for name, (_, kept) in curves.items() for step in kept["step"][kept["value"].isna()][:1]]
    named: dict[str, list[_Jump]] = {}
    for one in sorted(jumps, key=lambda jump: jump.lo):
        together = {other.name: other for other in jumps if one.overlaps(other)}
        ended = [f"the nan of {name}" for name, step in lost if one.lo < step <= one.hi]
        name = next(iter(ended), _named(one, together, moving))
        if name and not any(map(one.overlaps, named.setdefault(name, []))):
            named[name].append(one)
            again = f" number {len(named[name])}," if len(named[name]) > 1 else ""
            found[name + again] = round((one.lo + one.hi) / 2)
    return found


def _jumps(name: str, rows: pd.DataFrame, abrupt: float = ABRUPT, size: float = 0.0) -> Iterator[_Jump]:
    """Yield the lasting jumps of a curve that are so many times larger than the changes beside them, and of a size."""
    steps, values = rows["step"].to_numpy(), rows["value"].to_numpy(float)
    moves = np.pad(np.abs(np.diff(values)), SIDE, constant_values=np.inf)
    move, beside = moves[SIDE:-SIDE], np.lib.stride_tricks.sliding_window_view(moves, SIDE).max(axis=1)
    others = np.maximum(beside[: len(move)], beside[SIDE + 1 :])
    for i in np.flatnonzero((move > abrupt * others) & (move >= size) & (steps[1:] <= NEAR * steps[:-1])).tolist():
        sides = values[i - 2 : i + 1], values[i + 1 : i + 4], values[i + 1 :][:LASTING], values[-LASTING:]
        before, after, later, last = (statistics.median(part.tolist()) for part in sides)
        if (later - before) * np.sign(after - before) >= abs(values[i + 1] - values[i]) / 2:
            falls_on, sharp = after - last > FALLS * np.median(move[i + 1 :][:LASTING]), move[i] > SHARP * others[i]
            yield _Jump(name, int(steps[i]), int(steps[i + 1]), before, after, bool(falls_on), bool(sharp))


def _is_stair(one: _Jump, rows: pd.DataFrame) -> bool:
    """Whether a fall has another one of its curve beside it that is at least half as large."""
    falls = _jumps(one.name, rows, abrupt=1.0, size=(one.before - one.after) / 2)
    return one.after < one.before and any(each.after < each.before and not one.overlaps(each) for each in falls)


def _named(one: _Jump, together: Mapping[str, _Jump], curves: Mapping[str, pd.DataFrame]) -> str:
    """Say what a jump looks like; nothing where it may be learning, as a stair of several."""
    if len(together) == len(curves) >= MANY:
        return f"{SEEMS} a change of the run, as all {len(curves)} curves jump within one row,"
    if one.factor and all(other.factor == one.factor for other in together.values()):
        return f"{SEEMS} {one.factor} in {one.name}, which jumps within one row,"
    losses = [name for name in curves if LOSS.search(name)]
    steady = [name for name in losses if HELD_OUT.search(name) and name not in together and _stays(curves[name], one)]
    if one.name not in losses or not one.sharp or _is_stair(one, curves[one.name]):
        return ""
    other = f"{SEEMS} other data or another measure of {one.name}, which jumps within one row"
    if steady and not HELD_OUT.search(one.name):
        return f"{other} without {steady[0]},"
    of_data = {*losses} <= together.keys() and not any(map(HELD_OUT.search, together.keys() - {*losses}))
    return f"{other} and falls on," if of_data and one.after > one.before and one.falls_on else ""


def _stays(rows: pd.DataFrame, jump: _Jump) -> bool:
    before, after = rows["value"][rows["step"] <= jump.lo][-2:], rows["value"][rows["step"] >= jump.hi][:2]
    return bool(abs(after.mean() - before.mean()) <= STEADY * abs(jump.after - jump.before))


def _seams(rows: pd.DataFrame, kept: pd.DataFrame) -> dict[str, Cause]:
    """Return where a run was resumed at an earlier step, of whose rows those that count are `kept`."""
    logged, steps = rows["step"].to_numpy(), kept["step"].to_numpy()
    again = logged[1:][np.diff(logged) < 0] if len(kept) < len(rows) else logged[:0]
    places = np.unique(np.searchsorted(steps, again)).tolist()
    return _resumed((steps[at - 1], steps[at]) for at in places if at > 0)


def _resumed(ends: Iterable[tuple[int, int]]) -> dict[str, Cause]:
    found: dict[str, Cause] = {}
    for last, first in ends:
        found[numbered("the resumption of the run", found)] = round((last + first) / 2)
    return found


def columns_in(frame: pd.DataFrame, at: Any, runs: Collection[str]) -> dict[str, Cause]:
    """Return where what a run reads in a step changes, by columns that count it, and where a part follows another."""
    found: dict[str, Cause] = {}
    for name in frame.columns.drop(at):
        counts = {*re.findall("[a-z]+", str(name).lower())} & COUNTED and pd.api.types.is_numeric_dtype(frame[name])
        if counts or str(name).lower() in runs:
            rows = frame[[name]].assign(step=pd.to_numeric(frame[at], errors="coerce")).dropna()
            rows = rows.drop_duplicates("step").sort_values("step", kind="stable")
            found |= (_batches if counts else _parts)(str(name), rows["step"].to_numpy(), rows[name].to_numpy())
    return found


def _parts(name: str, steps: np.ndarray, labels: np.ndarray) -> dict[str, Cause]:
    places = np.flatnonzero(labels[1:] != labels[:-1]).tolist()
    return _resumed((steps[i], steps[i + 1]) for i in places if len(places) < len({*labels}))


def _batches(name: str, steps: np.ndarray, counts: np.ndarray) -> dict[str, Cause]:
    sizes = (np.diff(counts) / np.diff(steps)).round(6)
    lasting = [len([*of]) for _, of in itertools.groupby(sizes.tolist())]
    if not 1 < len(lasting) <= SIZES or min(lasting) < LEAST or sizes.min() <= 0:
        return {}
    middles = (steps[1:] + steps[:-1]) / 2
    return of_setting(f"{name} a step", zip(middles.tolist(), sizes.tolist(), strict=True))
