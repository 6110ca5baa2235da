"""Turning points: a minimum's step with its interval, the test against "it only falls", how far learning slows."""

from typing import NamedTuple

import numpy as np

from stagewise.statistics import _constants as c
from stagewise.statistics._criteria import DEFAULT, StageCriteria
from stagewise.statistics._curve import Curve, thinned
from stagewise.statistics._differences import correlated_noise, correlation, monotone, noise, smoothed
from stagewise.statistics._fading import Fading, Stretch, noise_like, restricted_likelihood
from stagewise.statistics._verdicts import TurnVerdict


class Turn(NamedTuple):
    """Where a curve is lowest, how deep the valley is, and how certain it is that there is one.

    `step` estimates the step at which the curve without noise has its minimum; `lo` and `hi` are its 95 % interval over
    noise between checkpoints, resampling of the probe batch, and the distance to the next checkpoint. `start` is the
    first value, `p_value` that of a rise as large as this on a curve that only falls.
    """

    step: int
    lo: int
    hi: int
    start: float
    value: float
    fall: float
    rise: float
    p_value: float

    def is_later_than(self, other: "Turn") -> bool:
        """Whether the minimum lies after another one by more than the errors of both, in the log step."""
        errors = np.log1p([other.hi, self.step]) - np.log1p([other.step, self.lo])
        return bool(np.log1p(self.step) - np.log1p(other.step) > np.hypot(*errors))

    def rejection(self, criteria: StageCriteria = DEFAULT) -> TurnVerdict | None:
        """Return why this minimum does not count as a turning point; None where it does."""
        if self.fall <= criteria.approach * self.start:
            return TurnVerdict.NOT_APPROACHED
        if self.rise < criteria.depth * self.fall:
            return TurnVerdict.NO_RISE
        if self.p_value >= criteria.significance:
            return TurnVerdict.NOISE
        return None


def has_tail(curve: Curve) -> bool:
    """Whether there are enough checkpoints from a curve's lowest one on to tell how far noise is correlated."""
    return len(curve.steps) - int(smoothed(curve.values).argmin()) >= c.TAIL


def rate_of(curve: Curve) -> float:
    """Return how far a curve's noise is correlated between checkpoints, from its lowest one on, if that is enough.

    Before the minimum a curve bends while it falls, which looks like correlation. Where many follow it a polynomial
    takes the bends of the rise.
    """
    steps, values, _ = thinned(curve)
    rest = slice(int(smoothed(values).argmin()) if has_tail(curve) else 0, None)
    n = len(values[rest])
    if n < c.LONG:
        return float(correlation(values[rest]))
    stretch = Stretch(np.arange(float(n)), values[rest], _bending(steps[rest]))
    return float(c.RATES[np.argmax([restricted_likelihood(stretch, Fading.of_rate(rate))[0] for rate in c.RATES])])


def turning_point(curve: Curve, criteria: StageCriteria = DEFAULT, seed: int = 0, rate: float = 0.0) -> Turn:
    """Find where a curve is lowest: the minimum of a polynomial in the log step, fitted to its valley.

    The interval is from the minima of refits with new noise, as correlated as that of the curve, and with resamples of
    the batch. The null of the test is the best curve that never rises (isotonic regression) with such noise. Where a
    stretch has finer checkpoints than those before it, these make the fit and its interval, with noise that fades over
    steps; the rest goes by as many as lie elsewhere: see `noise_like`.

    Args:
        curve: ascending steps, finite values.
        criteria: `neighbours` and `simulations` count.
        seed: of the simulations under the null.
        rate: the least correlation of the noise between checkpoints that the test takes, as other curves have it.
    """
    coarse = thinned(curve)
    steps, values, _ = coarse
    smooth, sigma, generator = smoothed(values), float(noise(values)), np.random.default_rng(seed)
    t = int(smooth.argmin())
    own = rate_of(curve)
    rise = _rise(smooth)
    # The null: the best curve that never rises, with noise as correlated as any that was seen.
    draws = correlated_noise(generator, sigma, max(rate, own), (criteria.simulations, len(steps)))
    as_large = (_rise(smoothed(monotone(smooth, increasing=False) + draws)) >= rise).sum()
    step, lo, hi = _minimum(curve, coarse, t, own, criteria, generator)
    return Turn(
        step=step,
        lo=lo,
        hi=hi,
        start=float(values[0]),
        value=float(smooth[t]),
        fall=float(smooth[0] - smooth[t]),
        rise=float(rise),
        p_value=float((1 + as_large) / (1 + criteria.simulations)),
    )


def _minimum(
    curve: Curve, coarse: Curve, t: int, rate: float, criteria: StageCriteria, generator: np.random.Generator
) -> tuple[int, int, int]:
    """Return the checkpoint nearest to the minimum of the valley around a coarse checkpoint, and its interval's."""
    steps, values, _ = coarse
    valley = _valley(
        smoothed(values), t, float(noise(values[max(t - criteria.neighbours, 0) : t + criteria.neighbours + 1]))
    )
    # Too few for a polynomial: all that is known is that the minimum lies beside this checkpoint.
    if valley.stop - valley.start < 2 * c.DEGREE:
        return int(steps[t]), int(steps[max(t - 1, 0)]), int(steps[min(t + 1, len(steps) - 1)])
    all_steps = curve.steps
    inside = (all_steps >= steps[valley.start]) & (all_steps <= steps[valley.stop - 1])
    within = curve.values[inside]
    u = np.log1p(all_steps[inside])
    degree = _degree(np.log1p(steps[valley]), values[valley], rate)
    columns, fine = _polynomials(u, degree), _polynomials(np.linspace(u[0], u[-1], c.FINE_POINTS), degree)
    weights = np.linalg.lstsq(columns, within, rcond=None)[0]
    fit, middle = columns @ weights, (weights @ fine.T).argmin()
    residual, shape = within - fit, (criteria.simulations, len(u))
    if len(within) > valley.stop - valley.start:
        here = Stretch(all_steps[inside], within, columns)
        draws = fit + noise_like(here, _after(curve, here.steps[-1]), generator, shape[0])
    else:
        deviation = np.sqrt((residual**2).sum() / (len(u) - degree - 1)) * np.sqrt((6 - 8 * rate + 2 * rate**2) / 6)
        # In a short valley the polynomial takes up most of a slow noise: the whole curve tells how large it is.
        draws = fit + correlated_noise(generator, max(float(deviation), float(noise(values))), rate, shape)
    # The batch is one of many: what another one would add moves the minimum too.
    draws += _resampled(curve, criteria.simulations, generator)[:, inside]
    lowest = (np.linalg.lstsq(columns, draws.T, rcond=None)[0].T @ fine.T).argmin(1)
    tail = (1 - c.LEVEL) / 2
    places = np.interp(np.array([middle, *np.quantile(lowest, [tail, 1 - tail])]), [0, c.FINE_POINTS - 1], u[[0, -1]])
    step, lo, hi = np.expm1(places).clip(all_steps[0], all_steps[-1])  # the first step may come back a little smaller
    return _enclosed(all_steps, step, lo, hi)


def _degree(u: np.ndarray, values: np.ndarray, rate: float) -> int:
    """Return the degree of a valley's polynomial: a higher one where the values, fewer if correlated, ask for it.

    Source: Schwarz (1978), Estimating the dimension of a model.
    """
    number = len(u) * (1 - rate) / (1 + rate)

    def criterion(degree: int) -> float:
        columns = _polynomials(u, degree)
        residual = values - columns @ np.linalg.lstsq(columns, values, rcond=None)[0]
        variance = (residual**2).mean() + (c.BEND_FLOOR * np.ptp(values)) ** 2 + np.finfo(float).tiny
        return float(number * np.log(variance) + c.PRICE * (degree + 1) * np.log(max(number, 2)))

    return min((c.DEGREE, *(degree for degree in c.HIGHER if len(u) > 2 * degree)), key=criterion)


def _after(curve: Curve, step: float) -> Stretch | None:
    """Return the part of a curve after a step, beside polynomials for its bends, if it is long enough."""
    steps, values = (each[curve.steps > step] for each in curve[:2])
    return None if len(steps) < c.LONG else Stretch(steps, values, _bending(steps))


def _bending(steps: np.ndarray) -> np.ndarray:
    return _polynomials(np.log1p(steps), min(c.BENDS, len(steps) // c.EACH))


def _polynomials(u: np.ndarray, degree: int) -> np.ndarray:
    """Return Chebyshev's polynomials up to a degree on ascending points: [point, degree]."""
    return np.polynomial.chebyshev.chebvander(2 * (u - u[0]) / (u[-1] - u[0]) - 1, degree)


def _enclosed(steps: np.ndarray, step: float, lo: float, hi: float) -> tuple[int, int, int]:
    """Return the checkpoint nearest to a step, and those that enclose its interval."""
    nearest = int(np.abs(steps - step).argmin())
    below, above = steps[steps <= min(lo, steps[nearest])], steps[steps >= max(hi, steps[nearest])]
    return int(steps[nearest]), int(below[-1]), int(above[0] if len(above) else steps[-1])


def _valley(smooth: np.ndarray, t: int, sigma: float) -> slice:
    """Return the checkpoints around the lowest one up to VALLEY of the smaller depth on either side."""
    left, right = smooth[: t + 1].max() - smooth[t], smooth[t:].max() - smooth[t]
    depth = max(c.VALLEY * min(left, right), 6 * sigma)
    outside = np.flatnonzero(smooth - smooth[t] > depth)
    before, after = outside[outside < t], outside[outside > t]
    start, stop = (int(before[-1]) if len(before) else 0), (int(after[0]) + 1 if len(after) else len(smooth))
    return slice(max(min(start, t - c.DEGREE), 0), min(max(stop, t + c.DEGREE + 1), len(smooth)))


def _resampled(curve: Curve, number: int, generator: np.random.Generator) -> np.ndarray:
    """Return so many draws of what a resampled batch adds to the curve: [draw, step]."""
    if curve.resamples is None:
        return np.zeros((number, len(curve.steps)))
    return np.asarray(generator.choice(curve.resamples - curve.resamples.mean(0), number))


def from_first_peak(curve: Curve) -> Curve:
    """Return the curve from its first local maximum on: a KL that starts at zero must rise before it can fall."""
    falling = np.flatnonzero(np.diff(smoothed(curve.values)) < 0)
    return curve.take(slice(falling[0] if len(falling) else -1, None))


def slowdown(curve: Curve, lo: int, hi: int, criteria: StageCriteria = DEFAULT) -> float:
    """Return the speed of learning at its slowest within [lo, hi], over the slower of its peaks before and after that.

    Speed is the fall over a step ratio of `window`; 1 means that there is no slow time between two fast ones, where a
    peak that noise could make does not count.
    """
    steps, values, _ = curve
    falls = np.interp(steps / criteria.window, steps, values) - values
    slower = np.minimum(np.maximum.accumulate(falls), np.maximum.accumulate(falls[::-1])[::-1])
    here = (steps >= lo) & (steps <= hi) & (slower > criteria.peak * noise(values))
    return float((falls[here] / slower[here]).clip(0, 1).min(initial=1.0))


def _rise(curves: np.ndarray) -> np.ndarray:
    """Return how far each curve rises after its smallest value."""
    after = np.arange(curves.shape[-1]) >= curves.argmin(-1)[..., None]
    return np.asarray(np.where(after, curves, -np.inf).max(-1) - curves.min(-1))
