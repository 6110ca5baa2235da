"""The transitions of curves over training: how many, when each has made 10, 50 and 90 % of its way, how certain."""

import dataclasses
import functools
import itertools
from collections.abc import Callable

import numpy as np
from scipy.ndimage import median_filter
from scipy.stats import median_abs_deviation

from stagewise.statistics import _constants as c
from stagewise.statistics._criteria import DEFAULT
from stagewise.statistics._curve import Unit
from stagewise.statistics._decisions import rejection
from stagewise.statistics._likelihood_ratio import p_value
from stagewise.statistics._noise.residual import WHITE, Noise, without_outliers
from stagewise.statistics._pairs import superfluous
from stagewise.statistics._refinement import Context, Refined, refine, resampled
from stagewise.statistics._scan import Fit, Target, bases, coefficients, design, smooth_fit, transition_fit
from stagewise.statistics._shapes import Shapes, alike
from stagewise.statistics._transition import Found, Transition, prominence

ANY_SIZE = dataclasses.replace(DEFAULT, smallest=0.0)
"""The criteria of an onset without that of its size, which depends on the curve's unit."""


def find_transitions(
    steps: np.ndarray,
    curves: np.ndarray,
    resamples: Callable[[int], np.ndarray | None] = lambda _: None,
    alpha: float = 0.05,
) -> list[Found]:
    """Return the transitions of curves [curve, step] that share their steps.

    A curve without one that could be an onset is searched again from where most of its way is made: what is large
    early, as the first fall of a loss, hides what is small later. That second look doubles its p-values.

    Args:
        steps: ascending, each once, ten or more.
        curves: finite.
        resamples: returns those of a curve, of the batch, as [resample, step]; asked for where it has a transition.
        alpha: the level at which a further transition is added.
    """
    steps, curves = np.asarray(steps, float), np.asarray(curves, float)
    found = _found(steps, curves, resamples, alpha)
    for i, whole in enumerate(found):
        start = _mostly_made(curves[i])
        if start and len(steps) - start >= DEFAULT.fewest and not any(map(_stands, whole.transitions)):
            of_rest = functools.partial(_from, start, resamples, i)
            (rest,) = _found(steps[start:], curves[i : i + 1, start:], of_rest, alpha / 2)
            later = [one._replace(p_value=min(2 * one.p_value, 1.0)) for one in rest.transitions]
            if any(map(_stands, later)):
                counted = tuple(one._replace(preceding=one.preceding + start) for one in later)
                found[i] = Found(counted, min(2 * rest.p_value, 1.0))
    return found


def _mostly_made(curve: np.ndarray) -> int:
    """Return the place at which most of a curve's way is made; 0 where what follows moves nearly as far."""
    smooth = np.asarray(median_filter(curve, size=c.SMOOTHED, mode="nearest"))
    way = np.abs(smooth - smooth[0])
    start = int(np.argmax(way >= c.MOSTLY * way.max()))
    return start if np.ptp(smooth[start:]) <= c.REST * np.ptp(smooth) else 0


def _stands(one: Transition) -> bool:
    """Whether a transition could be an onset, of whatever size."""
    return rejection(one, one.p_value, ANY_SIZE) is None


def _from(start: int, resamples: Callable[[int], np.ndarray | None], i: int, _: int) -> np.ndarray | None:
    whole = resamples(i)
    return None if whole is None else whole[:, start:]


def _found(
    steps: np.ndarray, curves: np.ndarray, resamples: Callable[[int], np.ndarray | None], alpha: float
) -> list[Found]:
    basis, results = bases(tuple(np.asarray(steps, float).tolist())), []
    for i, values in enumerate(without_outliers(np.asarray(curves, float))):
        # Squares of values far from 0 would lose the digits of the changes.
        unit = Unit.of(values)
        search = _Search(Target.of(unit.of_values(values), basis), alpha)
        p = search.run()
        of_batch = resamples(i) if search.shapes else None
        found = search.transitions(None if of_batch is None else unit.of_values(of_batch))
        results.append(Found(tuple(transition.measured(unit) for transition in found), p))
    return results


class _Search:
    """Forward selection of the transitions of one curve; after each addition all are refined beside the others."""

    def __init__(self, target: Target, alpha: float) -> None:
        self.target, self.alpha = target, alpha
        self.curve, self.basis, self.floor = target
        self.fits: list[Refined] = []
        self.shapes: list[Shapes] = []
        self.growths: list[float | None] = []
        self.noise = WHITE

    def _p(self, fit: Fit, without: Fit, ratio: float = 1.0) -> float:
        """Return the p-value of what a fit explains beyond another one, which several transitions do more by chance."""
        statistic = 2 * (fit.likelihood - without.likelihood) / ratio
        return float(p_value(statistic, len(self.curve), fit.noise.correlation))

    def together(self, shape: int, null: Fit, one: Fit, p: float, level: float) -> tuple[list[int], float]:
        """Return a transition, or two or three at once, which fewer alone may hide, with the smallest p-value.

        Several are tried where the noise seems correlated, and taken where they are significant at a level.
        """
        chosen, stack, thin = [shape], self._stack(), bases(self.basis.steps, c.BACKGROUNDS_THINNED)
        if max(null.noise.correlation, one.noise.correlation) < c.CORRELATED:
            return chosen, p
        target = self.target._replace(basis=thin)
        early, _, late = thin.shapes.times().T
        starts, wide = [[shape]], late - early > c.SHARP
        if wide[shape]:
            # It stands for all that are left; one of them may lead to the others.
            starts.append([transition_fit(target, one.noise, stack, wide).shape])
        for number, ratio in c.TOGETHER.items():
            best: tuple[Fit, list[int]] | None = None
            for start in starts:
                places, settled = start, 0
                for _ in range(c.MOVES):
                    others = places[-number + 1 :]
                    fit = transition_fit(target, one.noise, np.concatenate([stack, thin.transitions[others]]))
                    before, places = places, [*others, fit.shape]
                    if best is None or fit.likelihood > best[0].likelihood:
                        best = fit, places
                    settled = settled + 1 if sorted(places) == sorted(before) else 0
                    if settled == number - 1:
                        break
            assert best is not None
            # The best pair is where the search for three begins.
            starts, of_several = [best[1]], self._p(best[0], null, ratio)
            if of_several < min(p, level):
                chosen, p = best[1], of_several
        return chosen, p

    def run(self) -> float:
        """Find a transition, or several at once, and others beside them; return the p-value against none."""
        null = self._full()
        one = transition_fit(self.target, null.noise, self._stack())
        several, p = [one.shape], self._p(one, null)
        # Where one transition is clear, several at once need not be tried.
        if p > self.alpha / 50:
            several, p = self.together(one.shape, null, one, p, self.alpha)
        if p <= self.alpha:
            self._add(one.shape, several, one.noise)
            self._add_further()
        return p

    def _add_further(self) -> None:
        for _ in range(c.ADDITIONS):
            room, level = c.MOST_TRANSITIONS - len(self.shapes), c.FURTHER * self.alpha
            if room == 0:
                return
            stack, without = self._stack(), self._full()
            # Those of the grid that cannot be told from those of the curve.
            barred = np.any([alike(self.basis.shapes, one, self.basis.u) for one in self.shapes], axis=0)
            best = more = transition_fit(self.target, without.noise, stack)
            if barred[more.shape] and not barred.all():
                best = transition_fit(self.target, without.noise, stack, barred)
            several, p = [best.shape], self._p(best, without)
            if p > level:
                several, p = self.together(more.shape, without, more, p, level)
            if p > level or not self._add(best.shape, several[:room], best.noise):
                return

    def _add(self, single: int, several: list[int], noise: Noise) -> bool:
        """Add a transition of the grid, or several where it alone says less; whether all are told from each other.

        On the grid two may fit better than one of a width between those of the grid: both are refined first.
        """
        before, alone = (list(self.shapes), list(self.growths)), self._take([single], noise)
        if several == [single]:
            return alone
        state, without = (self.shapes, self.growths, self.fits), self._full()
        self.shapes, self.growths = before
        apart, full = self._take(several, noise), self._full()
        if self._p(full, without, c.TOGETHER.get(len(several) - 1, 1.0)) > self.alpha:
            self.shapes, self.growths, self.fits = state
            return alone
        return apart

    def _take(self, shapes: list[int], noise: Noise) -> bool:
        """Take transitions of the grid, and leave out what is superfluous then; whether all are told apart."""
        self.noise = noise
        self.shapes = self.shapes + [self.basis.shapes.take([shape]) for shape in shapes]
        self.growths = self.growths + [None] * len(shapes)
        self._refine(1 if len(self.shapes) == 1 else 2)
        apart = True
        # Refined, two of them may have become one: the less certain one goes.
        while (pair := self._pair()) is not None:
            apart = False
            self._drop(max(pair, key=self._p_values().__getitem__))
        # Later ones may have made an earlier one superfluous.
        while len(self.shapes) > 2 and max(p := self._p_values()) > c.FURTHER * self.alpha:
            self._drop(p.index(max(p)))
        return apart

    def _drop(self, j: int) -> None:
        del self.shapes[j], self.growths[j]
        self._refine(1)

    def _full(self) -> Fit:
        return smooth_fit(self.target, self._stack())

    def _pair(self) -> tuple[int, int] | None:
        """Return two transitions that cannot be told from each other."""
        pairs = itertools.combinations(range(len(self.shapes)), 2)
        return next(((a, b) for a, b in pairs if alike(self.shapes[a], self.shapes[b], self.basis.u).any()), None)

    def _refine(self, rounds: int) -> None:
        for _ in range(rounds):
            self.fits = []
            for j in range(len(self.shapes)):
                context = self.context(j)
                fit = refine(context._replace(growth=self._possible(context, j)), self.shapes[j], self.noise)
                self.fits.append(fit)
                self.shapes[j], self.growths[j] = fit.best, fit.growth

    def _possible(self, context: Context, j: int) -> float | None:
        """Return the exponent of the growth that may begin with a transition of the grid within the way of one."""
        early, _, late = self.shapes[j].times()[0]
        halves, spacing = self.basis.shapes.times()[:, 1], np.diff(self.basis.u).max()
        (near,) = np.nonzero((halves >= early - spacing) & (halves <= late + spacing))
        if not len(near):
            return None
        shapes, columns = self.basis.shapes.take(near), context.beside(self.basis.coarse, self.noise)
        return min(c.GROWTH, key=lambda growth: context.scan(columns, shapes, growth).squares(self.curve).min())

    def _p_values(self) -> list[float]:
        full = self._full()
        return [self._p_value(full, j) for j in range(len(self.shapes))]

    def _p_value(self, full: Fit, j: int) -> float:
        price = c.GROWTH_PRICE * len(self._growth(j))
        return self._p(full._replace(likelihood=full.likelihood - price), smooth_fit(self.target, self._stack(j)))

    def _growth(self, j: int) -> np.ndarray:
        """Return what begins with a transition, at the checkpoints, as a row or none."""
        growth = self.shapes[j].growths(self.basis.u, self.growths[j])
        return np.empty((0, len(self.curve))) if growth is None else growth

    def _rows(self) -> list[np.ndarray]:
        """Return each transition, after what begins with it, at the checkpoints."""
        return [np.concatenate([self._growth(j), one.at(self.basis.u)]) for j, one in enumerate(self.shapes)]

    def _stack(self, without: int | None = None) -> np.ndarray:
        rows = [row for j, row in enumerate(self._rows()) if j != without]
        return np.concatenate(rows) if rows else np.empty((0, len(self.curve)))

    def context(self, j: int) -> Context:
        return Context(self.curve, self.basis, self._stack(j), self.floor)

    def transitions(self, resamples: np.ndarray | None) -> tuple[Transition, ...]:
        """Describe what was found, the first transition first."""
        if not self.shapes:
            return ()
        full = self._full()
        rivals = superfluous(self.target, full, self._rows())
        found = [self._describe(j, full, p, resamples) for j, p in enumerate(rivals)]
        return tuple(sorted(found, key=lambda one: float(one.times[1, 0])))

    def _describe(self, j: int, full: Fit, rival: float, resamples: np.ndarray | None) -> Transition:
        others, n = np.concatenate([self._stack(j), self._growth(j)]), len(self.curve)
        noise = full.noise
        columns = np.concatenate([design(self.basis.fine[full.background], others), self.shapes[j].at(self.basis.u)])
        weights = coefficients(self.curve, columns, noise)
        residual = noise.whitened(self.curve - weights @ columns)
        shifts = None if resamples is None else resampled(self.context(j), self.fits[j], noise, resamples)
        times = self.fits[j].quantiles(self.basis.u, shifts)
        size, u, whole = float(weights[-1]), self.basis.u, weights @ columns
        growth = 0.0 if self.growths[j] is None else weights[-2] * columns[-2]
        # Levels are those that the curve has then: what overlaps with this transition is in them too.
        beside = weights[:-1] @ columns[:-1]
        before = float(np.interp(times[0, 0], u, beside))
        after = float(np.interp(times[2, 0], u, beside) + size if times[2, 0] <= u[-1] else whole[-1])
        start, stop = (float(level) for level in np.clip((before, after), whole.min(), whole.max()))
        change = after - before
        way = size * float(np.diff(np.interp(times[[0, 2], 0], u, columns[-1]))[0])
        variance = (residual**2).sum() / max(n - 4 - len(self.shapes), 3)
        deviation = float(np.sqrt(variance)) * noise.level(float(np.interp(times[1, 0], u, np.arange(n))), n)
        return Transition(
            size,
            times,
            start,
            stop,
            change,
            max(self._p_value(full, j), rival),
            deviation,
            prominence(u, weights[1] * columns[1] + growth, size, self.shapes[j]),
            float(np.diff(np.interp(times[[0, 2], 0], u, whole))[0] / way) if way else 0.0,
            int((u <= times[0, 0]).sum()),
            int((u >= times[2, 0]).sum()),
            noise.correlation,
            self._walk(times, change),
            self.shapes[j],
        )

    def _walk(self, times: np.ndarray, change: float) -> float:
        length = ((self.basis.u >= times[0, 0]) & (self.basis.u <= times[2, 0])).sum() + 1
        step = float(median_abs_deviation(np.diff(self.curve), scale="normal"))
        largest = float(np.sqrt(2 * np.log(max(len(self.curve) / length, 1.0))))
        return abs(change) / (step * float(np.sqrt(length))) - largest if step > 0 else float("inf")
