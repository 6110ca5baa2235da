"""One transition on a finer grid around it: its best shape, and how likely the others are given the curve."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stagewise.statistics import _constants as c
from stagewise.statistics._noise.residual import KINDS, SMOOTH, Noise, log_likelihood, restricted_likelihoods
from stagewise.statistics._scan import Bases, Whitened, design, scanned, whiten
from stagewise.statistics._shapes import IN_STEPS, RAMP, RAMP_IN_STEPS, Shapes, joined

ABRUPT = 1.0
"""Stands for the exponents of all abrupt onsets."""

PART, NUMBERS, RESAMPLES = 2048, 2**18, 16
"""Shapes, or values of shapes where there are many checkpoints, and resamples of the batch, that are held against a
curve at a time: memory grows with none of them."""


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
    width = float(np.clip((late - early) / c.LOGISTIC_LASTS, narrowest, c.WIDEST))
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


class Refined(NamedTuple):
    """The most likely shape, and shapes around it with their weights, which sum to one. `area` is the logarithm of what
    each of these stands for, by their place and the logarithm of their width.
    """

    best: Shapes
    shapes: Shapes
    weights: np.ndarray
    area: np.ndarray

    def quantiles(self, u: np.ndarray, shifts: np.ndarray | None = None) -> np.ndarray:
        """Return the median and the 95 % interval of u at t10, t50 and t90: [part, (median, lo, hi)]. A tenth of the
        spacing of checkpoints is added on either side: what happens between two is unknown.
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
    """Context of a transition's fit: the curve, the smooth backgrounds, the other transitions."""

    curve: np.ndarray
    basis: Bases
    others: np.ndarray
    floor: float

    def beside(self, backgrounds: np.ndarray, noise: Noise) -> Whitened:
        """Return backgrounds [background, step] beside the other transitions, whitened."""
        return whiten(backgrounds, self.others, noise)


def refine(context: Context, shape: Shapes, kind: int) -> Refined:
    """Return the posterior of a transition's shape on a grid around it, with a flat prior in place and log width."""
    u, patches = context.basis.u, around(shape, context.basis.u)
    grid = points(patches, u)
    if not grid.shapes.number:
        return Refined(shape, shape, np.ones(1), np.zeros(1))
    backgrounds = _likely(context, grid.shapes.take(np.arange(0, grid.shapes.number, c.SHAPES_THINNED)), KINDS[kind])
    columns = design(backgrounds[0], context.others)
    noises = _plausible(context, columns, shape, SMOOTH if KINDS[kind].window is None else KINDS)
    near, finer = patches, 1
    # Each grid closes in on what the last one left likely, until enough of its points share the weight.
    for least, finer in zip(c.NEGLIGIBLE, c.FINER_GRIDS, strict=True):
        grid = points(near, u, finer)
        weights = _weights(context, backgrounds, grid, noises)
        shape = grid.shapes.take([int((weights / np.exp(grid.area)).argmax())])
        if 1 / (weights**2).sum() > c.CONCENTRATED:
            break
        near = closer(near, grid, weights, finer, least)
    if (excess := _excess(context, columns, shape, noises[0])) > 1:
        whole = {patch.tail: patch for patch in patches}
        near = [one.wider(np.sqrt(excess), whole[one.tail]) for one in near]
        grid = points(near, u, finer)
        weights = _weights(context, backgrounds, grid, noises, c.TEMPER / excess)
    return Refined(shape, grid.shapes, weights, grid.area)


def resampled(context: Context, refined: Refined, kind: int, resamples: np.ndarray) -> np.ndarray:
    """Return how far resamples of the batch [resample, step] move the three times: [resample, part]."""
    fine, noise = context.basis.fine, KINDS[kind]
    total = scanned(context.curve[None], context.beside(fine, noise), refined.best.at(context.basis.u))[0, :, 0]
    columns = context.beside(fine[[int(total.argmin())]], noise)
    squares = np.empty((len(resamples), refined.shapes.number))
    for chosen in _parts(refined.shapes, len(context.basis.u)):
        values = refined.shapes.take(chosen).at(context.basis.u)
        squares[:, chosen] = scanned(resamples, columns, values)[:, 0] + context.floor
    freedom, times, parts = _freedom(context), refined.shapes.times(), []
    for part in np.array_split(squares, len(squares) // RESAMPLES + 1):
        parts.append(_normalised(-0.5 * c.TEMPER * freedom * np.log(part) + refined.area) @ times)
    moved = np.concatenate(parts)
    return np.asarray(moved - moved.mean(0))


def _likely(context: Context, shapes: Shapes, noise: Noise) -> np.ndarray:
    """Return the backgrounds that are most likely with any of some shapes, the likeliest first: [background, step]."""
    fine, values = context.basis.fine, shapes.at(context.basis.u)
    squares = scanned(context.curve[None], context.beside(fine, noise), values)[0] + context.floor
    weights = np.exp(-0.5 * _freedom(context) * np.log(squares / squares.min()))
    return np.asarray(fine[np.argsort(-weights.sum(1))[: c.LIKELY_BACKGROUNDS]])


def _plausible(context: Context, columns: np.ndarray, shape: Shapes, kinds: Sequence[Noise]) -> list[Noise]:
    """Return the kinds of noise that the residuals allow, by the restricted likelihood: fitting hides correlation."""
    stack = np.concatenate([columns, shape.at(context.basis.u), _slopes(shape, context.basis.u)])
    restricted = restricted_likelihoods(context.curve, stack, context.floor, kinds)
    order = np.argsort(-restricted)[: c.MOST_NOISES]
    return [kinds[k] for k in order if restricted[k] > restricted.max() - c.PLAUSIBLE]


def _slopes(shape: Shapes, u: np.ndarray) -> np.ndarray:
    """Return how a transition changes with its place and with its width: [2, step]."""
    spacing = float(np.interp(shape.times()[0, 1], (u[1:] + u[:-1]) / 2, np.diff(u)))
    moved = [shape._replace(middle=shape.middle + sign * spacing / 4).at(u)[0] for sign in (-1, 1)]
    # A ramp has no tail to be made heavier.
    tail = np.where(shape.tail > 0, shape.tail, 0.0)
    wider = [
        shape._replace(width=shape.width * by, tail=np.where(tail > 0, tail / by, shape.tail)).at(u)[0]
        for by in (0.8, 1.25)
    ]
    return np.stack([moved[1] - moved[0], wider[1] - wider[0]])


def _excess(context: Context, columns: np.ndarray, shape: Shapes, noise: Noise) -> float:
    """Return the variance of the residuals where they move a transition over that of all of them.

    Where it is above 1 the noise is larger there than elsewhere (as that of an accuracy half-way is), or the shape does
    not fit; the likelihood would be too certain by as much. Leverages are taken off the residuals.

    Source: White (1980), A heteroskedasticity-consistent covariance matrix estimator; MacKinnon and White (1985), HC2.
    """
    u = context.basis.u
    slopes = noise.whitened(_slopes(shape, u))
    stack = np.concatenate([noise.whitened(np.concatenate([columns, shape.at(u)])), slopes])
    q, values = np.linalg.qr(stack.T)[0], noise.whitened(context.curve)
    squares = (values - q @ (q.T @ values)) ** 2 / (1 - (q**2).sum(1)).clip(min=c.LEAST_FREE)
    squares += context.floor / len(u)
    weights = slopes**2
    sizes = weights.sum(1)
    return float((weights[sizes > 0] @ squares / sizes[sizes > 0] / squares.mean()).max(initial=1.0))


def _weights(
    context: Context, backgrounds: np.ndarray, grid: Points, noises: list[Noise], temper: float = c.TEMPER
) -> np.ndarray:
    n, freedom = len(context.basis.u), _freedom(context)
    columns, parts = [context.beside(backgrounds, noise) for noise in noises], []
    for chosen in _parts(grid.shapes, n):
        values = grid.shapes.take(chosen).at(context.basis.u)
        squares = [scanned(context.curve[None], beside, values)[0] + context.floor for beside in columns]
        pairs = zip(squares, noises, strict=True)
        parts.append([log_likelihood(part, n, kind.correlation, freedom) - kind.surprise for part, kind in pairs])
    logs = np.concatenate(parts, axis=-1).reshape(-1, grid.shapes.number)
    return np.asarray(_normalised((temper * logs + grid.area)[None])[0].sum(0))


def _parts(shapes: Shapes, steps: int) -> list[np.ndarray]:
    """Return the numbers of shapes, as many as are held against a curve of so many steps at a time."""
    most = min(PART, max(NUMBERS // steps, 1))
    return np.array_split(np.arange(shapes.number), shapes.number // most + 1)


def _normalised(logs: np.ndarray) -> np.ndarray:
    axes = tuple(range(1, logs.ndim))
    weights = np.exp(logs - logs.max(axes, keepdims=True))
    return np.asarray(weights / weights.sum(axes, keepdims=True))


def _freedom(context: Context) -> int:
    return max(len(context.basis.u) - 5 - len(context.others), 3)
