"""The shapes that an effect can have: changes of level, excursions, and what is gradual."""

import dataclasses
import enum
import functools
import itertools

import numpy as np

from stagewise.statistics import _constants as c
from stagewise.statistics._effects._settings import EffectSettings

PARTS = np.array(c.PARTS)
"""The parts of the way whose times are told, as an array."""

AT_ONCE = 0.6
"""Part of its change that a gradual shape makes within the first gap, at most."""

OVERLAP = 1.15
"""Width of the cell to which a place is known over the distance of places: a time at the border of two cells is in the
interval of either."""

OF_WIDTH, OF_TAIL = 0.5, 0.7
"""Parts of a width, and of the exponent of a tail, to which t10 and t90 are known beside the place: a shape stands for
those up to the next width, and for others as wide. At .35, the spacing of widths, they were covered in .89."""


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


class _Rows:
    """Atoms in the making."""

    def __init__(self, number: int) -> None:
        self.rows: list[tuple[np.ndarray, Kind, int, np.ndarray, np.ndarray, float]] = []
        self.number = number

    def add(
        self, values: np.ndarray, kind: Kind, weight: float = 1.0, family: int = -1,
        times: np.ndarray | None = None, cell: np.ndarray | None = None,
    ) -> None:  # fmt: skip
        """Add one, in units of its change; a shape that changes by nothing is left out."""
        change = float(np.ptp(values))
        if kind in (Kind.CHANGE, Kind.GRADUAL):
            if change < 1e-3:
                return
            # What is nearly done by the second checkpoint cannot be told from a jump within the first gap.
            if kind == Kind.GRADUAL and abs(values[1] - values[0]) > AT_ONCE * change:
                return
            values = values / change
        self.rows.append(
            (
                values,
                kind,
                family,
                np.full(3, np.nan) if times is None else times,
                np.zeros(3) if cell is None else cell,
                weight,
            )
        )


@functools.lru_cache(maxsize=8)
def atoms_of(steps: tuple[float, ...], settings: EffectSettings) -> Atoms:
    """Return the atoms of a run's checkpoints."""
    t = np.asarray(steps)
    rows = _Rows(len(t))
    rows.add(np.zeros(len(t)), Kind.NONE)
    _add_excursions(rows, settings)
    _add_gradual(rows, t, settings)
    others = len(rows.rows)
    _add_changes(rows, np.log1p(t), settings)
    values, kinds, families, times, cells, weights = zip(*rows.rows, strict=True)
    kind, family, prior = np.array(kinds), np.array(families), np.array(weights)
    groups = [family == number for number in np.unique(family[others:])]
    groups += [kind == each for each in (Kind.NONE, Kind.GRADUAL, Kind.EXCURSION)]
    shares = [1.0] * (len(groups) - 3) + [*settings.shares]
    for group, share in zip(groups, shares, strict=True):
        prior[group] = np.log(share * prior[group] / prior[group].sum())
    return Atoms(np.array(values), kind, family, np.array(times), np.array(cells), prior, others)


def sigmoid(u: np.ndarray, middle: np.ndarray | float, width: np.ndarray | float) -> np.ndarray:
    """Return a logistic rise from 0 to 1."""
    return np.asarray(0.5 * (1 + np.tanh((u - middle) / (2 * width))))


def _add_changes(rows: _Rows, u: np.ndarray, s: EffectSettings) -> None:
    """Add a jump in every gap, sigmoids of a ladder of widths, and abrupt onsets with a tail."""
    gaps, middles, way = np.diff(u), (u[1:] + u[:-1]) / 2, np.log(PARTS / (1 - PARTS))
    widths = s.widest * 0.5 ** (np.arange(s.narrower * s.octave + 1) / s.octave)
    for k, (gap, middle) in enumerate(zip(gaps, middles, strict=True)):
        rows.add((np.arange(len(u)) > k).astype(float), Kind.CHANGE, 1.0, 0, np.full(3, middle), np.full(3, gap))
        for number, width in enumerate(widths):
            cell = s.apart * width
            if width < s.narrowest * gap or _is_crowded(middles, k, gap, cell):
                continue
            # A narrow one at a checkpoint has a value of its own there; between two, none has its half at one.
            places = [middle, u[k + 1]] if gap > cell and k < len(gaps) - 1 else [middle]
            share = max(gap, cell) / len(places)
            for place in places:
                if sigmoid(u[-1:], place, width) < s.cut:
                    continue
                cell_of = OVERLAP * np.hypot(share, OF_WIDTH * width * way)
                family = 2 + number // s.octave
                rows.add(sigmoid(u, place, width), Kind.CHANGE, share, family, place + width * way, cell_of)
        for tail in s.tails if k >= s.begun else ():
            cell, since = s.apart / 4 / tail, -np.log1p(-PARTS) / tail
            if _is_crowded(middles, k, gap, cell):
                continue
            places = [u[k], middle] if gap > cell else [u[k]]
            share = max(gap, cell) / len(places)
            for place in places:
                onset = -np.expm1(-tail * np.clip(u - place, 0, None))
                rows.add(onset, Kind.CHANGE, share / gap, 1, place + since, OVERLAP * np.hypot(share, OF_TAIL * since))


def _is_crowded(middles: np.ndarray, k: int, gap: float, cell: float) -> bool:
    """Whether the gap before is in the same cell of places that are as good as one."""
    return bool(gap < cell and k and int(middles[k] / cell) == int(middles[k - 1] / cell))


def _add_excursions(rows: _Rows, s: EffectSettings) -> None:
    """Add deviations of a few neighbouring checkpoints with others before and after, and of the last checkpoint."""
    for start, length in itertools.product(range(1, rows.number), range(1, s.longest_excursion + 1)):
        place = np.arange(rows.number)
        if start + length < rows.number:
            rows.add(((place >= start) & (place < start + length)).astype(float), Kind.EXCURSION)
    # One that begins at the last checkpoint may be of any length.
    rows.add((np.arange(rows.number) == rows.number - 1).astype(float), Kind.EXCURSION, float(s.longest_excursion))


def _add_gradual(rows: _Rows, t: np.ndarray, s: EffectSettings) -> None:
    """Add power laws, exponentials, logarithms and wide sigmoids: one family of each time scale."""
    since, u = t - t[0], np.log1p(t)
    last, first = since[-1], max(since[1], since[-1] / 3000)
    for scale in _scales(first / 2, 2 * last, s.finer):
        rows.add(np.exp(-since / scale), Kind.GRADUAL)
    for scale in _scales(max(1.0, first / 32), last, s.finer**2):
        rows.add(np.log1p(since / scale), Kind.GRADUAL, 0.5)
        for decay in s.decays:
            rows.add((1 + since / scale) ** -decay, Kind.GRADUAL, 2 / len(s.decays))
    for power in s.powers:
        rows.add((since / last) ** power, Kind.GRADUAL)
    for width in s.gradual:
        for middle in np.arange(u[0] + width, u[-1], width):
            rows.add(sigmoid(u, middle, width), Kind.GRADUAL, 0.5)
    for duration in s.slow:
        for start in np.arange(-duration / 2, 1 - duration / 2 + 1e-9, duration / 4):
            part = ((since / last - start) / duration).clip(0, 1)
            rows.add((1 - np.cos(np.pi * part)) / 2, Kind.GRADUAL, 0.5)


def _scales(first: float, last: float, ratio: float) -> np.ndarray:
    return np.geomspace(first, last, max(2, 1 + round(np.log(last / first) / np.log(ratio))))
