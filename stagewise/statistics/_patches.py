"""Grids of shapes around one: a patch of places and widths for each family, which closes in on what is likely."""

from typing import NamedTuple

import numpy as np

from stagewise.statistics import _constants as c
from stagewise.statistics._shapes import IN_STEPS, RAMP, RAMP_IN_STEPS, Shapes, joined

ABRUPT = 1.0
"""Stands for the exponents of all abrupt onsets."""


class Patch(NamedTuple):
    """Shapes of one family, by its `tail`, with their places and the logarithms of their widths within bounds. The
    place is u = log(1 + step) half-way, or where an abrupt onset starts; that has the logarithm of its exponent in
    place of one of a width.
    """

    tail: float
    places: tuple[float, float]
    scales: tuple[float, float]

    def shapes(self, finer: int) -> Shapes:
        """Return the shapes at its points, so many times as fine, the scales of each place beside each other."""
        ends = zip((self.places, self.scales), _sizes(finer), strict=True)
        middles, scales = (
            part.ravel() for part in np.meshgrid(*(np.linspace(*bounds, n) for bounds, n in ends), indexing="ij")
        )
        if self.tail == ABRUPT:
            return Shapes(middles, np.full(len(middles), 0.1), np.exp(scales))
        ramp = c.RAMPS if self.tail in (RAMP, RAMP_IN_STEPS) else 1.0
        return Shapes(middles, ramp * np.exp(scales), np.full(len(middles), self.tail))

    @property
    def area(self) -> float:
        """How much of places and scales it holds."""
        return float(np.diff(self.places)[0] * np.diff(self.scales)[0])

    def closer(self, weights: np.ndarray, finer: int) -> "Patch":
        """Return the patch of the points that are likely, and of their neighbours."""
        likely = weights.reshape(_sizes(finer)) > c.LIKELY * weights.max()
        return Patch(self.tail, _kept(self.places, likely.any(1)), _kept(self.scales, likely.any(0)))

    def wider(self, ratio: float, within: "Patch") -> "Patch":
        """Return it with its sides so many times as long, within another one."""
        sides = [
            (max(lo - (hi - lo) * (ratio - 1) / 2, least), min(hi + (hi - lo) * (ratio - 1) / 2, most))
            for (lo, hi), (least, most) in ((self.places, within.places), (self.scales, within.scales))
        ]
        return Patch(self.tail, *sides)


class Points(NamedTuple):
    """Shapes of several patches that have enough checkpoints on either side. `area` is what each stands for, as a
    logarithm, [shape], and `patch` the number of its patch; `inside` says which of all points of the patches they are.
    """

    shapes: Shapes
    area: np.ndarray
    patch: np.ndarray
    inside: np.ndarray


def points(patches: list[Patch], u: np.ndarray, finer: int = 1) -> Points:
    """Return the points of patches, of each so many times as many in either direction."""
    each = [patch.shapes(finer) for patch in patches]
    shapes, numbers = joined(each), np.repeat(np.arange(len(each)), [part.number for part in each])
    area = np.log([patch.area / part.number for patch, part in zip(patches, each, strict=True)])
    halves = shapes.times()[:, 1]
    inside = (halves >= u[c.BEFORE - 1]) & (halves <= u[-c.AFTER])
    kept = np.flatnonzero(inside)
    return Points(shapes.take(kept), area[numbers[kept]], numbers[kept], inside)


def closer(patches: list[Patch], grid: Points, weights: np.ndarray, finer: int, least: float) -> list[Patch]:
    """Return the patches of the points that are likely, each by its own, without patches that weigh less than asked."""
    of_all = np.zeros(len(grid.inside))
    of_all[grid.inside] = weights
    parts = zip(patches, np.split(of_all, len(patches)), strict=True)
    return [patch.closer(part, finer) if part.max() > 0 else patch for patch, part in parts if part.sum() >= least]


def around(shape: Shapes, u: np.ndarray) -> list[Patch]:
    """Return patches of logistics, ramps and abrupt onsets around a shape."""
    early, half, late = (float(time) for time in shape.times()[0])
    spacing = float(np.interp(half, (u[1:] + u[:-1]) / 2, np.diff(u)))
    narrowest, abrupt = c.NARROWEST_LOGISTIC * spacing, shape.tail[0] > 0
    width = float(np.clip((late - early) / 4.4, narrowest, c.WIDEST))
    exponent = float(shape.tail[0]) if abrupt else float(np.clip(2.2 / (late - early), 0.3, 0.75 * c.STEEPEST))
    start = float(shape.middle[0]) if abrupt else early
    reach = c.SPAN * max(spacing / 2, width)
    halves = (half - reach, half + reach)
    return [
        *(Patch(tail, halves, _scales(width, narrowest, 1.2 * c.WIDEST)) for tail in (0.0, RAMP)),
        *(Patch(tail, halves, _scales(width, narrowest, c.WIDEST_IN_STEPS)) for tail in (IN_STEPS, RAMP_IN_STEPS)),
        Patch(ABRUPT, (start - reach, start + reach), _scales(exponent, 0.25, c.STEEPEST)),
    ]


def _sizes(finer: int) -> tuple[int, int]:
    return finer * (c.PATCH_PLACES - 1) + 1, finer * (c.PATCH_SCALES - 1) + 1


def _scales(middle: float, least: float, most: float) -> tuple[float, float]:
    """Return logarithms of scales around one, within bounds, a factor of two at least."""
    lo, hi = (float(np.log(np.clip(middle * 2.0**power, least, most))) for power in (-c.SPAN, c.SPAN))
    short = max(float(np.log(2)) - (hi - lo), 0.0)
    return (lo - short, hi) if hi >= np.log(most) else (lo, hi + short)


def _kept(bounds: tuple[float, float], likely: np.ndarray) -> tuple[float, float]:
    """Return the bounds of what is likely of evenly spaced points, and a point more on either side."""
    places, values = np.flatnonzero(likely), np.linspace(*bounds, len(likely))
    return float(values[max(places[0] - 1, 0)]), float(values[min(places[-1] + 1, len(values) - 1)])
