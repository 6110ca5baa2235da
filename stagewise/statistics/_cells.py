"""Cells of places and widths around one transition, which are divided where they are likely."""

from typing import NamedTuple

import numpy as np

from stagewise.statistics import _constants as c
from stagewise.statistics._shapes import IN_STEPS, RAMP, RAMP_IN_STEPS, Shapes

ABRUPT = 1.0
"""Stands for the exponents of all abrupt onsets."""


class Cells(NamedTuple):
    """Rectangles of places and logarithms of widths, each of one family, which the shape in its middle stands for.

    The place is u = log(1 + step) half-way, or where an abrupt onset starts; that has the logarithm of its exponent in
    place of one of a width. `length` and `height` are the sides in places and scales: [cell].
    """

    tail: np.ndarray
    place: np.ndarray
    scale: np.ndarray
    length: np.ndarray
    height: np.ndarray

    @property
    def shapes(self) -> Shapes:
        """The shapes in their middles."""
        abrupt, sizes = self.tail == ABRUPT, np.exp(self.scale)
        widths = np.where(np.isin(self.tail, (RAMP, RAMP_IN_STEPS)), c.RAMPS, 1.0) * sizes
        return Shapes(self.place, np.where(abrupt, 0.1, widths), np.where(abrupt, sizes, self.tail))

    @property
    def area(self) -> np.ndarray:
        """The logarithm of how much of places and scales each holds."""
        return np.asarray(np.log(self.length * self.height))

    def take(self, chosen: np.ndarray) -> "Cells":
        """Return some of them."""
        return Cells(*(part[chosen] for part in self))

    def divided(self) -> "Cells":
        """Return the four quarters of each."""
        quarters = [
            self._replace(
                place=self.place + side * self.length / 4,
                scale=self.scale + end * self.height / 4,
                length=self.length / 2,
                height=self.height / 2,
            )
            for side in (-1, 1)
            for end in (-1, 1)
        ]
        return joined(quarters)

    def inside(self, u: np.ndarray) -> "Cells":
        """Return those half-way with enough checkpoints, at u, on either side."""
        halves = self.shapes.times()[:, 1]
        return self.take((halves >= u[c.BEFORE - 1]) & (halves <= u[-c.AFTER]))


def joined(parts: list[Cells]) -> Cells:
    """Return all of them as one."""
    return Cells(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def around(shape: Shapes, u: np.ndarray) -> Cells:
    """Return cells of logistics, ramps and abrupt onsets around a shape."""
    early, half, late = (float(time) for time in shape.times()[0])
    spacing = float(np.interp(half, (u[1:] + u[:-1]) / 2, np.diff(u)))
    narrowest, abrupt = c.NARROWEST_LOGISTIC * spacing, shape.tail[0] > 0
    width = float(np.clip((late - early) / 4.4, narrowest, c.WIDEST))
    exponent = float(shape.tail[0]) if abrupt else float(np.clip(2.2 / (late - early), 0.3, 0.75 * c.STEEPEST))
    start, reach = float(shape.middle[0]) if abrupt else early, c.SPAN * max(spacing / 2, width)
    widest = {0.0: 1.2 * c.WIDEST, RAMP: 1.2 * c.WIDEST, IN_STEPS: c.WIDEST_IN_STEPS, RAMP_IN_STEPS: c.WIDEST_IN_STEPS}
    families = [_family(tail, half, reach, _scales(width, narrowest, most)) for tail, most in widest.items()]
    return joined([*families, _family(ABRUPT, start, reach, _scales(exponent, 0.25, c.STEEPEST))]).inside(u)


def _family(tail: float, place: float, reach: float, scales: tuple[float, float]) -> Cells:
    """Return the cells of one family, so many as PLACES times SCALES, from a place so far on either side."""
    length, height = 2 * reach / c.PLACES, (scales[1] - scales[0]) / c.SCALES
    places, sizes = np.meshgrid(
        place - reach + length * (np.arange(c.PLACES) + 0.5), scales[0] + height * (np.arange(c.SCALES) + 0.5)
    )
    same = np.ones(places.size)
    return Cells(tail * same, places.ravel(), sizes.ravel(), length * same, height * same)


def _scales(middle: float, least: float, most: float) -> tuple[float, float]:
    """Return logarithms of scales around one, within bounds, a factor of two at least."""
    lo, hi = (float(np.log(np.clip(middle * 2.0**power, least, most))) for power in (-c.SPAN, c.SPAN))
    short = max(float(np.log(2)) - (hi - lo), 0.0)
    return (lo - short, hi) if hi >= np.log(most) else (lo, hi + short)
