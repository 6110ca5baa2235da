"""The shapes that an effect can have: changes of level, excursions, and what is gradual."""

import dataclasses
import enum
import functools
import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from stagewise.statistics import _constants as c
from stagewise.statistics._effects._settings import EffectSettings

PARTS = np.array(c.PARTS)
"""The parts of the way whose times are told, as an array."""


class Kind(enum.IntEnum):
    """What a shape is to a reader of the curve."""

    NONE = 0
    GRADUAL = 1
    EXCURSION = 2
    CHANGE = 3


@dataclasses.dataclass(frozen=True)
class Atoms:
    """Shapes at the checkpoints, in units of what they change over them: [atom, step].

    `family` is the width or shape of a change, which others may share. `times` are log(1 + step) at each part of the
    way, known to a cell as wide as `cell`, both [atom, part]. `prior` is the log prior of a change in its family, of
    another shape among all that are none. Changes are the last, from `first_change` on.
    """

    columns: np.ndarray
    kind: np.ndarray
    family: np.ndarray
    times: np.ndarray
    cell: np.ndarray
    prior: np.ndarray
    first_change: int

    @functools.cached_property
    def of_family(self) -> np.ndarray:
        """Whether an atom is of a family: [atom, family]."""
        numbers = np.unique(self.family[self.family >= 0])
        return np.asarray(self.family[:, None] == numbers)

    @functools.cached_property
    def jumps(self) -> np.ndarray:
        """The atoms that are a jump within a gap, one a gap."""
        return np.flatnonzero(self.family == 0)


class _Row(NamedTuple):
    """An atom in the making: its weight is its prior beside others of its family, or of its kind."""

    values: np.ndarray
    kind: Kind
    weight: float = 1.0
    family: int = -1
    times: np.ndarray = np.full(len(PARTS), np.nan)
    cell: np.ndarray = np.zeros(len(PARTS))


@functools.lru_cache(maxsize=8)
def atoms_of(steps: tuple[float, ...], settings: EffectSettings, given: bool = False) -> Atoms:
    """Return the atoms of a run's checkpoints, whose errors may be given: then the first level rests on one of them."""
    t = np.asarray(steps)
    # What is nearly done by the second checkpoint cannot be told from a jump within the first gap.
    gradual = [one for one in _gradual(t, settings) if abs(one.values[1] - one.values[0]) <= settings.like]
    none = [_Row(np.zeros(len(t)), Kind.NONE), *_excursions(len(t), settings), *gradual]
    rows = [*none, *_changes(np.log1p(t), settings, given)]
    values, kinds, weights, families, times, cells = map(np.array, zip(*rows, strict=True))
    groups = [families == number for number in np.unique(families[len(none) :])]
    groups += [kinds == each for each in (Kind.NONE, Kind.GRADUAL, Kind.EXCURSION)]
    shares = [1.0] * (len(groups) - 3) + [*settings.shares]
    for group, share in zip(groups, shares, strict=True):
        weights[group] = np.log(share * weights[group] / weights[group].sum())
    return Atoms(values, kinds, families, times, cells, weights, len(none))


def scaled(values: np.ndarray) -> np.ndarray:
    """Return a shape in units of what it changes over the checkpoints."""
    return np.asarray(values / np.ptp(values))


def sigmoid(u: np.ndarray, middle: np.ndarray | float, width: np.ndarray | float) -> np.ndarray:
    """Return a logistic rise from 0 to 1."""
    return np.asarray(0.5 * (1 + np.tanh((u - middle) / (2 * width))))


def _changes(u: np.ndarray, s: EffectSettings, given: bool) -> Iterator[_Row]:
    """Yield a jump in every gap, sigmoids of a ladder of widths, and abrupt onsets with a tail."""
    gaps, middles, way = np.diff(u), (u[1:] + u[:-1]) / 2, np.log(PARTS / (1 - PARTS))
    for k, (gap, middle) in enumerate(zip(gaps, middles, strict=True)):
        jump, weight = (np.arange(len(u)) > k) * 1.0, max(1.0, np.sqrt(gap / gaps.mean())) if given else 1.0
        yield _Row(jump, Kind.CHANGE, weight, 0, np.full(3, middle), np.full(3, gap))
        for width in s.widths:
            cell = s.apart * width
            if width < s.narrowest * gap or _is_crowded(middles, k, gap, cell):
                continue
            # A narrow one at a checkpoint has a value of its own there; between two, none has its half at one.
            places = [middle, u[k + 1]] if gap > cell and k < len(gaps) - 1 else [middle]
            share, family = max(gap, cell) / len(places), 2 + int(np.log2(s.widths[0] / width) + 1e-9)
            cell_of = np.hypot(share, s.apart * width * way)
            for place in places:
                if sigmoid(u[-1:], place, width) >= s.nearly:
                    yield _Row(
                        scaled(sigmoid(u, place, width)), Kind.CHANGE, share, family, place + width * way, cell_of
                    )
        for tail in s.tails if k >= s.brief else ():
            cell, since = s.apart / 4 / tail, -np.log1p(-PARTS) / tail
            if _is_crowded(middles, k, gap, cell):
                continue
            places = [u[k], middle] if gap > cell else [u[k]]
            share = max(gap, cell) / len(places)
            cell_of = np.hypot(share, s.apart * since)
            for place in places:
                onset = -np.expm1(-tail * np.clip(u - place, 0, None))
                yield _Row(scaled(onset), Kind.CHANGE, share / gap, 1, place + since, cell_of)


def _is_crowded(middles: np.ndarray, k: int, gap: float, cell: float) -> bool:
    """Whether the gap before is in the same cell of places that are as good as one."""
    return bool(gap < cell and k and int(middles[k] / cell) == int(middles[k - 1] / cell))


def _excursions(number: int, s: EffectSettings) -> Iterator[_Row]:
    """Yield deviations of a few neighbouring checkpoints with others before and after, and of the last checkpoint."""
    place = np.arange(number)
    for start, length in itertools.product(range(1, number), range(1, s.brief + 1)):
        if start + length < number:
            yield _Row(((place >= start) & (place < start + length)).astype(float), Kind.EXCURSION)
    # One that begins at the last checkpoint may be of any length.
    yield _Row((place == number - 1).astype(float), Kind.EXCURSION, float(s.brief))


def _gradual(t: np.ndarray, s: EffectSettings) -> Iterator[_Row]:
    """Yield power laws, exponentials, logarithms and wide sigmoids: one family of each time scale."""
    since, u = t - t[0], np.log1p(t)
    decays, growths = ([power for power in s.powers if power * sign > 0] for sign in (-1, 1))
    last, first = since[-1], max(since[1], since[-1] / 3000)
    for scale in _scales(first / 2, 2 * last, s.finer):
        yield _Row(scaled(np.exp(-since / scale)), Kind.GRADUAL)
    for scale in _scales(max(1.0, first / 32), last, s.finer**2):
        yield _Row(scaled(np.log1p(since / scale)), Kind.GRADUAL, 0.5)
        for power in decays:
            yield _Row(scaled((1 + since / scale) ** power), Kind.GRADUAL, 2 / len(decays))
    for power in growths:
        yield _Row((since / last) ** power, Kind.GRADUAL)
    for width in s.widths[0] * 2 ** (np.arange(1, 4) / 2):
        for middle in np.arange(u[0] + width, u[-1], width):
            yield _Row(scaled(sigmoid(u, middle, width)), Kind.GRADUAL, 0.5)
    for duration in s.slow:
        for start in np.arange(-duration / 2, 1 - duration / 2 + 1e-9, duration / 4):
            part = ((since / last - start) / duration).clip(0, 1)
            yield _Row(scaled((1 - np.cos(np.pi * part)) / 2), Kind.GRADUAL, 0.5)


def _scales(first: float, last: float, ratio: float) -> np.ndarray:
    return np.geomspace(first, last, max(2, 1 + round(np.log(last / first) / np.log(ratio))))
