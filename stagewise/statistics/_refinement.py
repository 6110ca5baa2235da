"""One transition on cells around it: its best shape, and how likely the others are given the curve."""

import itertools
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from stagewise.statistics import _constants as c
from stagewise.statistics._cells import Cells, around, joined
from stagewise.statistics._noise.residual import KINDS, Noise, log_likelihood, restricted_likelihoods
from stagewise.statistics._scan import Bases, Scan, Whitened, design, whiten
from stagewise.statistics._shapes import Shapes


class Refined(NamedTuple):
    """The most likely shape, and shapes around it with their weights, which sum to one.

    `growth` is the exponent of what begins with the best one, if anything does; `area` is the logarithm of what each of
    these stands for, by their place and the logarithm of their width.
    """

    best: Shapes
    shapes: Shapes
    weights: np.ndarray
    area: np.ndarray
    growth: float | None = None

    def quantiles(self, u: np.ndarray, shifts: np.ndarray | None = None) -> np.ndarray:
        """Return the median and the 95 % interval of u at t10, t50 and t90: [part, (median, lo, hi)].

        A tenth of the spacing of checkpoints is added on either side: what happens between two is unknown.

        Args:
            u: log(1 + step) of the checkpoints.
            shifts: what resamples of the batch add to each: [resample, part].
        """
        tail, shifts = (1 - c.LEVEL) / 2, np.zeros((1, 3)) if shifts is None else shifts
        weights, rows = self.weights / len(shifts), []
        for times, moves in zip(self.shapes.times().T, shifts.T, strict=True):
            moved = (moves[:, None] + times).ravel()
            order = np.argsort(moved)
            each = weights[order % len(times)]
            middle, lo, hi = np.interp([0.5, tail, 1 - tail], np.cumsum(each) - each / 2, moved[order])
            margin = c.INTERVAL_MARGIN * np.interp(middle, (u[1:] + u[:-1]) / 2, np.diff(u))
            rows.append((middle, lo - margin, hi + margin))
        return np.array(rows)


class Context(NamedTuple):
    """What a transition is fitted beside: the curve, the smooth backgrounds, the other transitions.

    `growth` is the exponent of what may begin with it, if anything may.
    """

    curve: np.ndarray
    basis: Bases
    others: np.ndarray
    floor: float
    growth: float | None = None

    def beside(self, backgrounds: np.ndarray, noise: Noise) -> Whitened:
        """Return backgrounds [background, step] beside the other transitions, whitened."""
        return whiten(backgrounds, self.others, noise)

    def scan(self, columns: Whitened, shapes: Shapes, growth: float | None) -> Scan:
        """Return shapes beside columns, each with a growth that begins with it, if any."""
        return Scan(columns, columns.noise.whitened(shapes.at(self.basis.u)), shapes.growths(self.basis.u, growth))


def refine(context: Context, shape: Shapes, noise: Noise) -> Refined:
    """Return the posterior of a transition's shape around it, with a flat prior in place and log width."""
    cells = around(shape, context.basis.u)
    if not len(cells.place):
        return Refined(shape, shape, np.ones(1), np.zeros(1))
    backgrounds = _likely(context, cells.shapes.take(slice(None, None, c.SHAPES_THINNED)), noise)
    columns = design(backgrounds[0], context.others)
    noises = _plausible(context, columns, shape)
    beside = [context.beside(backgrounds, noise) for noise in noises]
    options = list(dict.fromkeys((None, context.growth)))
    logs, temper = _log_likelihoods(context, beside, options, cells.shapes), c.TEMPER
    for _ in range(c.DIVISIONS):
        weights = _weights(logs, cells, temper)
        if 1 / (weights**2).sum() > c.CONCENTRATED:
            shape = cells.shapes.take([int(logs.max(0).argmax())])
            if temper < c.TEMPER or (excess := _excess(context, columns, shape, noises[0])) == 1:
                break
            temper /= excess
        likely = np.argsort(-weights)[: c.DIVIDED]
        parts = cells.take(likely).divided().inside(context.basis.u)
        rest = np.delete(np.arange(len(weights)), likely)
        logs = np.concatenate([logs[:, rest], _log_likelihoods(context, beside, options, parts.shapes)], axis=1)
        cells = joined([cells.take(rest), parts])
    # The best shape is one without growth unless that is clearly there.
    each = logsumexp(c.TEMPER * logs.reshape(len(noises), len(options), len(backgrounds), -1), axis=(0, 2))
    growing = int(each[-1].max() > each[0].max() + c.TEMPER * c.GROWTH_CLEAR)
    best = cells.shapes.take([int(each[growing].argmax())])
    return Refined(best, cells.shapes, _weights(logs, cells, temper), cells.area, options[growing])


def resampled(context: Context, refined: Refined, noise: Noise, resamples: np.ndarray) -> np.ndarray:
    """Return how far resamples of the batch [resample, step] move the three times: [resample, part]."""
    fine = context.basis.fine
    total = context.scan(context.beside(fine, noise), refined.best, refined.growth).squares(context.curve)[:, 0]
    scan = context.scan(context.beside(fine[[int(total.argmin())]], noise), refined.shapes, refined.growth)
    squares = np.stack([scan.squares(curve)[0] for curve in resamples]) + context.floor
    weights = _normalised(-0.5 * c.TEMPER * _freedom(context) * np.log(squares) + refined.area)
    moved = weights @ refined.shapes.times()
    return np.asarray(moved - moved.mean(0))


def _likely(context: Context, shapes: Shapes, noise: Noise) -> np.ndarray:
    """Return the backgrounds that are most likely with any of some shapes, the likeliest first: [background, step]."""
    fine = context.basis.fine
    squares = context.scan(context.beside(fine, noise), shapes, None).squares(context.curve) + context.floor
    weights = np.exp(-0.5 * _freedom(context) * np.log(squares / squares.min()))
    return np.asarray(fine[np.argsort(-weights.sum(1))[: c.LIKELY_BACKGROUNDS]])


def _plausible(context: Context, columns: np.ndarray, shape: Shapes) -> list[Noise]:
    """Return the kinds of noise that the residuals allow, by the restricted likelihood: fitting hides correlation."""
    stack = np.concatenate([columns, shape.at(context.basis.u), _slopes(shape, context.basis.u)])
    restricted = restricted_likelihoods(context.curve, stack, context.floor)
    order = np.argsort(-restricted)[: c.MOST_NOISES]
    return [KINDS[k] for k in order if restricted[k] > restricted.max() - c.PLAUSIBLE]


def _slopes(shape: Shapes, u: np.ndarray) -> np.ndarray:
    """Return how a transition changes with its place, and with its width: [2, step]."""
    middle, rows = float(shape.times()[0, 1]), []
    spacing = float(np.interp(middle, (u[1:] + u[:-1]) / 2, np.diff(u)))
    for shift, factor in ((spacing / 4, 1.0), (0.0, 1.1)):
        # The curve at other times is that of another place, or width, to first order.
        ends = (middle + (u - sign * shift - middle) / factor**sign for sign in (-1, 1))
        rows.append(np.subtract(*(shape.at(end)[0] for end in ends)))
    return np.stack(rows)


def _excess(context: Context, columns: np.ndarray, shape: Shapes, noise: Noise) -> float:
    """Return the variance of the residuals where they move a transition over that of all of them, at least 1.

    The noise may be larger there than elsewhere (as that of an accuracy half-way is), or the shape not fit; the
    likelihood would be too certain by as much. Leverages are taken off the residuals.

    Source: White (1980), A heteroskedasticity-consistent covariance matrix estimator; MacKinnon and White (1985), HC2.
    """
    slopes = noise.whitened(_slopes(shape, context.basis.u))
    stack = np.concatenate([noise.whitened(np.concatenate([columns, shape.at(context.basis.u)])), slopes])
    q, values = np.linalg.qr(stack.T)[0], noise.whitened(context.curve)
    squares = (values - q @ (q.T @ values)) ** 2 / (1 - (q**2).sum(1)).clip(min=c.LEAST_FREE)
    squares += context.floor / len(values)
    weights = slopes**2
    sizes = weights.sum(1)
    return float((weights[sizes > 0] @ squares / sizes[sizes > 0] / squares.mean()).max(initial=1.0))


def _log_likelihoods(
    context: Context, beside: list[Whitened], growths: list[float | None], shapes: Shapes
) -> np.ndarray:
    """Return those of shapes with every kind of noise, growth and background: [noise, growth and background, shape]."""
    u, rows = context.basis.u, []
    values, begins = shapes.at(u), [shapes.growths(u, growth) for growth in growths]
    for columns, begin in itertools.product(beside, begins):
        noise, price = columns.noise, 0.0 if begin is None else c.GROWTH_PRICE
        squares = Scan(columns, noise.whitened(values), begin).squares(context.curve) + context.floor
        rows.append(log_likelihood(squares, len(u), noise.correlation, _freedom(context)) - price)
    return np.concatenate(rows)


def _weights(logs: np.ndarray, cells: Cells, temper: float) -> np.ndarray:
    """Return how likely each cell is, over all kinds of noise, growths and backgrounds."""
    each = np.exp(temper * (logs - logs.max())).sum(0) * np.exp(cells.area - cells.area.max())
    return np.asarray(each / each.sum())


def _normalised(logs: np.ndarray) -> np.ndarray:
    """Return weights of shapes from their logarithms: [resample, shape]."""
    weights = np.exp(logs - logs.max(1, keepdims=True))
    return np.asarray(weights / weights.sum(1, keepdims=True))


def _freedom(context: Context) -> int:
    return max(len(context.basis.u) - 5 - len(context.others), 3)
