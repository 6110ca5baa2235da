"""Shapes over training: smooth backgrounds, and transitions in the logarithm of the step, as families on a grid."""

import functools
from typing import NamedTuple

import numpy as np

from stagewise.statistics import _constants as c

RAMP, IN_STEPS, RAMP_IN_STEPS = -1.0, -2.0, -3.0
"""Stand for the exponent of a ramp, and of a logistic and a ramp in the step itself, which have none."""


class Shapes(NamedTuple):
    """Transitions from 0 to 1: a logistic where `tail` is 0, a ramp where it is RAMP, else an abrupt onset.

    They are functions of u = log(1 + step), but for IN_STEPS and RAMP_IN_STEPS, a logistic and a ramp in the step.
    `middle` is the half of a logistic or ramp, or the place of an abrupt onset, which approaches its level as the step
    to the power -`tail`; `width` is that of a logistic, or half of a ramp's, in e-folds, or as a part of 1 + the step
    at its middle: [shape].
    """

    middle: np.ndarray
    width: np.ndarray
    tail: np.ndarray

    @property
    def number(self) -> int:
        """How many they are."""
        return len(self.middle)

    def take(self, chosen: np.ndarray | list[int] | slice) -> "Shapes":
        """Return some of them."""
        return Shapes(*(part[chosen] for part in self))

    def at(self, u: np.ndarray) -> np.ndarray:
        """Return their values: [shape, u]."""
        values = u - self.middle[:, None]
        values[self._in_steps] = np.expm1(values[self._in_steps])
        abrupt, ramp = self.tail > 0, self._ramp
        logistic = ~(abrupt | ramp)
        values[abrupt] = -np.expm1(-self.tail[abrupt, None] * values[abrupt].clip(min=0))
        values[ramp] = (0.5 + values[ramp] / (2 * self.width[ramp, None])).clip(0, 1)
        values[logistic] = 0.5 * (1 + np.tanh(values[logistic] / (2 * self.width[logistic, None])))
        return np.asarray(values)

    def times(self) -> np.ndarray:
        """Return log(1 + step) at which each part (PARTS) of the way is made: [shape, part]."""
        parts = np.array(c.PARTS)
        abrupt = -np.log1p(-parts) / np.where(self.tail > 0, self.tail, 1.0)[:, None]
        logistic = np.log(parts / (1 - parts)) * self.width[:, None]
        ramp = (2 * parts - 1) * self.width[:, None]
        way = np.select([self.tail[:, None] > 0, self._ramp[:, None]], [abrupt, ramp], logistic)
        way[self._in_steps] = np.log1p(way[self._in_steps])
        return np.asarray(self.middle[:, None] + way)

    @property
    def _ramp(self) -> np.ndarray:
        return np.isin(self.tail, (RAMP, RAMP_IN_STEPS))

    @property
    def _in_steps(self) -> np.ndarray:
        return np.isin(self.tail, (IN_STEPS, RAMP_IN_STEPS))


def joined(parts: list[Shapes]) -> Shapes:
    """Return all of them as one."""
    return Shapes(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def alike(shapes: Shapes, one: Shapes, u: np.ndarray) -> np.ndarray:
    """Return [shape]: which cannot be told from one, as halves are near, or each in the middle of the other."""
    (early, half, late), (first, middle, last) = (
        np.interp(part.times().T, u, np.arange(len(u))) for part in (shapes, one)
    )
    within = (early <= middle) & (middle <= late) & (first <= half) & (half <= last)
    return np.asarray((abs(half - middle) < c.HALVES_APART) | within)


@functools.lru_cache(maxsize=16)
def grid(steps: tuple[float, ...]) -> Shapes:
    """Return the transitions of the search, between all neighbouring checkpoints that have enough on either side.

    Narrow ones lie at checkpoints, too: between two, none has its half at the value of one. Many checkpoints do not
    have one between all: a search takes time and memory in their number times that of places.
    """
    u = np.log1p(np.asarray(steps))
    every = max(1, (len(u) - c.BEFORE - c.AFTER) // c.MIDDLES)
    gaps = np.arange(c.BEFORE - 1, len(u) - c.AFTER)[::every]
    middle, spacing = (u[1:] + u[:-1])[gaps] / 2, every * np.diff(u)[gaps]
    parts = []
    for width in c.WIDTHS:
        # A wide transition needs fewer places.
        thinned = slice(None, None, max(1, round(width / 1.4)))
        places, widths = middle[thinned], (width * spacing)[thinned]
        near = (widths <= c.WIDEST) | (width == c.WIDTHS[0])
        parts.append(Shapes(places[near], widths[near].clip(max=c.WIDEST), np.zeros(near.sum())))
        if width <= c.NARROW:
            parts.append(parts[-1]._replace(middle=u[gaps][near]).take(slice(1, None)))
    if len(gaps):
        spacing_widths = np.full(len(middle), c.WIDEST)
        wide = Shapes(middle, spacing_widths, np.zeros(len(middle)))
        parts += [wide, wide._replace(width=spacing_widths / 2)]
    starts = np.concatenate([middle, u[gaps]])
    parts += [Shapes(starts, np.zeros(len(starts)) + 0.1, np.full(len(starts), tail)) for tail in c.TAILS]
    return joined(parts)


def backgrounds(steps: np.ndarray, a_decade: int) -> np.ndarray:
    """Return smooth backgrounds on [0, 1], each to be used with a free offset: [background, step].

    Powers t^p, log(1 + t / s), (1 + t / s)^-p, exp(-t / s); the time s runs over the steps of the run, so many to a
    decade, from half the first one on.
    """
    last, first = steps[-1], max(1.0, min(steps[-1] / 1e4, steps[1])) / 2
    number = max(3, round(a_decade * np.log10(2 * last / first)))
    scaled = steps / np.geomspace(first, 2 * last, number)[:, None]
    powers = np.array(c.POWERS) if a_decade < 5 else np.linspace(0.2, 2.0, 19)
    # An exponential changes most from one time scale to the next.
    exponential = np.exp(-(steps - steps[0]) / np.geomspace(first, 2 * last, 2 * number)[:, None])
    rows = [(steps / last) ** powers[:, None], np.log1p(scaled), exponential]
    rows += [(1 + scaled) ** -decay for decay in (c.DECAYS if a_decade < 5 else c.FINE_DECAYS)]
    values = np.concatenate(rows)
    values = values - values.min(1, keepdims=True)
    return np.asarray(values / values.max(1, keepdims=True))
