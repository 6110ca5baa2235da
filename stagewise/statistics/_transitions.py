"""The transitions of curves over training: how many, when each has made 10, 50 and 90 % of its way, how certain."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence

import numpy as np
import scipy

from stagewise.statistics import _constants as c
from stagewise.statistics._criteria import DEFAULT
from stagewise.statistics._noise.differences import running_median
from stagewise.statistics._noise.residual import KINDS, without_outliers
from stagewise.statistics._pairs import superfluous
from stagewise.statistics._refinement import Context, Refined, refine, resampled
from stagewise.statistics._scan import Bases, Fits, bases, coefficients, design, floors, smooth_fits, transition_fits
from stagewise.statistics._several import moved, stairs
from stagewise.statistics._shapes import Shapes, alike
from stagewise.statistics._transition import Found, Transition, Unit, p_value, prominence, rejection

ANY_SIZE = dataclasses.replace(DEFAULT, smallest=0.0)
"""The criteria of an onset without that of its size, which depends on the curve's unit."""


def find_transitions(
    steps: np.ndarray,
    curves: np.ndarray,
    resamples: Callable[[int], np.ndarray | None] = lambda _: None,
    alpha: float = DEFAULT.false_discoveries,
) -> list[Found]:
    """Return the transitions of curves [curve, step] that share their steps.

    A curve without one that could be an onset is searched again from where most of its way is made: what is large
    early, as the first fall of a loss, hides what is small later. That second look is for more of the same way, since
    without the fall before it a slow rise would look like one that begins; it doubles its p-values.

    Args:
        steps: ascending, each once, ten or more.
        curves: finite.
        resamples: returns those of a curve, of the batch, as [resample, step]; asked for where it has a transition.
        alpha: the level of the likelihood ratio of a transition; the other criteria of an onset make it stricter.
    """
    steps, curves = np.asarray(steps, float), np.asarray(curves, float)
    found = _found(steps, curves, resamples, alpha)
    for i, whole in enumerate(found):
        start = _mostly_made(curves[i])
        if start and len(steps) - start >= DEFAULT.fewest and not any(map(_stands, whole.transitions)):
            of_rest = functools.partial(_from, start, resamples, i)
            (rest,) = _found(steps[start:], curves[i : i + 1, start:], of_rest, alpha / 2)
            up = np.sign(curves[i, start] - curves[i, 0])
            onward = [one for one in rest.transitions if one.size * up > 0 and _is_faster(one, steps, up * curves[i])]
            later = [one._replace(p_value=min(2 * one.p_value, 1.0)) for one in onward]
            if any(map(_stands, later)):
                counted = tuple(one._replace(preceding=one.preceding + start) for one in later)
                found[i] = Found(counted, min(2 * rest.p_value, 1.0))
    return found


def _mostly_made(curve: np.ndarray) -> int:
    """Return the place at which most of a curve's way is made; 0 where what follows moves nearly as far."""
    smooth = running_median(curve, c.SMOOTHED)
    way = np.abs(smooth - smooth[0])
    start = int(np.argmax(way >= c.MOSTLY * way.max()))
    return start if np.ptp(smooth[start:]) <= c.REST * np.ptp(smooth) else 0


def _is_faster(one: Transition, steps: np.ndarray, rising: np.ndarray) -> bool:
    """Whether a rising curve rises faster in a transition by far than right before it, for as long as to its middle."""
    early, half, late = np.expm1(one.times[:, 0])
    smooth = running_median(rising, c.SMOOTHED)
    before, begin, end = np.interp([2 * early - half, early, late], steps, smooth)
    return bool((end - begin) * (half - early) > DEFAULT.stands_out * (begin - before) * (late - early))


def _stands(one: Transition) -> bool:
    """Whether a transition could be an onset, of whatever size."""
    return rejection(one, one.p_value, ANY_SIZE) is None


def _from(start: int, resamples: Callable[[int], np.ndarray | None], i: int, _: int) -> np.ndarray | None:
    whole = resamples(i)
    return None if whole is None else whole[:, start:]


def _found(
    steps: np.ndarray, curves: np.ndarray, resamples: Callable[[int], np.ndarray | None], alpha: float
) -> list[Found]:
    basis, clean = bases(tuple(np.asarray(steps, float).tolist())), without_outliers(np.asarray(curves, float))
    # Squares of values far from 0 would lose the digits of the changes.
    units = [Unit.of(curve) for curve in clean]
    clean = np.stack([unit.of_values(curve) for unit, curve in zip(units, clean, strict=True)])
    floor = floors(clean)
    null = smooth_fits(clean, basis, floor)
    one = transition_fits(clean, basis, floor, null.kind)
    p = p_value(2 * (one.likelihood - null.likelihood), len(steps), one.correlation)
    results = []
    for i, curve in enumerate(clean):
        search, single = _Search(curve, basis, floor[[i]], alpha), int(one.shape[i])
        several = list[list[int]]()
        # Where one transition is clear, several at once need not be tried.
        if p[i] > alpha / 50:
            several, p[i] = search.together(single, _row(null, i), _row(one, i), float(p[i]), alpha)
        if p[i] > c.COARSE * alpha:
            results.append(Found((), float(p[i])))
            continue
        search.run(single, several, int(one.kind[i]))
        of_batch = resamples(i)
        found = search.transitions(None if of_batch is None else units[i].of_values(of_batch))
        results.append(Found(tuple(transition.measured(units[i]) for transition in found), float(p[i])))
    return results


def _row(fits: Fits, i: int) -> Fits:
    return Fits(*(column[[i]] for column in fits))


class _Search:
    """Forward selection of the transitions of one curve; after each addition all are refined beside the others."""

    def __init__(self, curve: np.ndarray, basis: Bases, floor: np.ndarray, alpha: float) -> None:
        self.curve, self.basis, self.floor, self.alpha = curve, basis, floor, alpha
        self.fits: list[Refined] = []
        self.shapes: list[Shapes] = []
        self.kind = 0

    def together(self, shape: int, null: Fits, one: Fits, p: float, level: float) -> tuple[list[list[int]], float]:
        """Return several transitions at once, which one alone may hide, the least probable first, with their p-value.

        They are tried where the noise seems correlated, and taken where they are significant at a level and less
        probable than one: two, and on a curve without any the steps of a staircase, which go one way.
        """
        stack, thin, n = self._stack(), bases(self.basis.steps, c.BACKGROUNDS_THINNED), len(self.curve)
        if max(null.correlation[0], one.correlation[0]) < c.CORRELATED:
            return [], p
        early, _, late = thin.shapes.times().T
        starts, wide = [[shape]], late - early > c.SHARP
        if wide[shape]:
            # It stands for all that are left; one of them may lead to the others.
            sharp = transition_fits(self.curve[None], thin, self.floor, one.kind, stack, wide)
            starts.append([int(sharp.shape[0])])
        context = Context(self.curve, thin, stack, float(self.floor[0]))
        pairs = [moved(context, start, 2, one.kind) for start in starts]
        several = [max(pairs, key=lambda pair: pair.likelihood)]
        several += [] if self.shapes else filter(None, (stairs(context, number, one.kind) for number in c.STAIRS))
        chosen = []
        for each in several:
            gain, number = 2 * (each.likelihood - null.likelihood[0]), len(each.places)
            statistic = gain / c.TOGETHER[2] if number == 2 else gain - c.EACH_STAIR * (number - 1)
            of_several = float(p_value(statistic, n, each.fit.correlation[0]))
            if of_several < min(p, level):
                chosen.append((of_several, each.places))
        chosen.sort()
        return [places for _, places in chosen], chosen[0][0] if chosen else p

    def run(self, single: int, several: list[list[int]], kind: int) -> None:
        """Begin with a transition of the grid, or several, and add what is significant beside them."""
        self._add(single, several, kind)
        for _ in range(c.ADDITIONS):
            room, level = c.MOST_TRANSITIONS - len(self.shapes), c.FURTHER * self.alpha
            if room == 0:
                return
            stack, without = self._stack(), self._full()
            # Those of the grid that cannot be told from those of the curve.
            barred = np.any([alike(self.basis.shapes, one, self.basis.u) for one in self.shapes], axis=0)
            best = more = transition_fits(self.curve[None], self.basis, self.floor, without.kind, stack)
            if barred[more.shape[0]] and not barred.all():
                best = transition_fits(self.curve[None], self.basis, self.floor, without.kind, stack, barred)
            single, statistic = int(best.shape[0]), 2 * (best.likelihood - without.likelihood)[0]
            several, p = list[list[int]](), float(p_value(statistic, len(self.curve), best.correlation[0]))
            if p > level:
                several, p = self.together(int(more.shape[0]), without, more, p, level)
            if p > level or not self._add(single, [each[:room] for each in several], int(best.kind[0])):
                return

    def _add(self, single: int, several: list[list[int]], kind: int) -> bool:
        """Add a transition of the grid, or the first several beside which it alone says less; whether all are told from
        each other. On the grid two may fit better than one of a width between those of the grid: all are refined first.
        """
        before, alone = self.shapes, self._take([single], kind)
        held, likelihood, shrunk = (self.shapes, self.fits, alone), self._full().likelihood, False
        for each in several:
            self.shapes = before
            apart, full = self._take(each, kind), self._full()
            statistic = 2 * (full.likelihood - likelihood)[0] / c.TOGETHER.get(len(each) - 1, 1.0)
            if p_value(statistic, len(self.curve), full.correlation[0]) > self.alpha:
                continue
            if len(each) > 2:
                self._join()
            # What is left of a staircase gives way to a pair.
            if len(each) == 2 or len(self.shapes) > len(before) + 2 or not shrunk:
                held = self.shapes, self.fits, apart
            shrunk = len(self.shapes) <= len(before) + 2 < len(before) + len(each)
            if not shrunk:
                break
        self.shapes, self.fits, apart = held
        return apart

    def _join(self) -> None:
        """Put one transition in the place of two neighbours of one direction where both say no more than it."""
        a = 0
        while a + 1 < len(self.shapes):
            order = np.argsort([one.times()[0, 1] for one in self.shapes])
            shapes, fits, full = self.shapes, self.fits, self._full()
            first, second = order[a : a + 2]
            a += 1
            columns = design(self.basis.fine[full.background[0]], self._stack())
            sizes = coefficients(self.curve, columns, KINDS[int(full.kind[0])])[2:]
            if sizes[first] * sizes[second] < 0:
                continue
            early, late = shapes[first].times()[0, 0], shapes[second].times()[0, 2]
            width = min((late - early) / c.LOGISTIC_LASTS, c.WIDEST)
            both = Shapes(np.array([(early + late) / 2]), np.array([width]), np.zeros(1))
            self.shapes = [one for k, one in enumerate(shapes) if k not in (first, second)] + [both]
            self._refine(1)
            statistic = 2 * (full.likelihood - self._full().likelihood)[0]
            if p_value(statistic, len(self.curve), full.correlation[0]) <= self.alpha:
                self.shapes, self.fits = shapes, fits
            else:
                a -= 1

    def _take(self, shapes: list[int], kind: int) -> bool:
        """Take transitions of the grid, and leave out what is superfluous then; whether all are told apart."""
        self.kind = kind
        self.shapes = self.shapes + [self.basis.shapes.take([shape]) for shape in shapes]
        self._refine(1 if len(self.shapes) == 1 else 2)
        apart = True
        # Refined, two of them may have become one: the less certain one goes.
        while (pair := self._pair()) is not None:
            apart = False
            del self.shapes[max(pair, key=self._p_values().__getitem__)]
            self._refine(1)
        # Later ones may have made an earlier one superfluous.
        while len(self.shapes) > 2 and max(p := self._p_values()) > c.FURTHER * self.alpha:
            del self.shapes[p.index(max(p))]
            self._refine(1)
        return apart

    def _full(self) -> Fits:
        return smooth_fits(self.curve[None], self.basis, self.floor, self._stack())

    def _pair(self) -> tuple[int, int] | None:
        """Return two transitions that cannot be told from each other."""
        pairs = itertools.combinations(range(len(self.shapes)), 2)
        return next(((a, b) for a, b in pairs if alike(self.shapes[a], self.shapes[b], self.basis.u).any()), None)

    def _refine(self, rounds: int) -> None:
        for _ in range(rounds):
            self.fits = []
            for j, one in enumerate(self.shapes):
                self.fits.append(refine(self.context(j), one, self.kind))
                self.shapes[j] = self.fits[j].best

    def _p_values(self) -> list[float]:
        full = self._full()
        return [self._p_value(full, j) for j in range(len(self.shapes))]

    def _p_value(self, full: Fits, j: int) -> float:
        without = smooth_fits(self.curve[None], self.basis, self.floor, self._stack(j))
        statistic = 2 * (full.likelihood - without.likelihood)[0]
        return float(p_value(statistic, len(self.curve), full.correlation[0]))

    def _stack(self, without: int | None = None) -> np.ndarray:
        rows = [shape.at(self.basis.u) for j, shape in enumerate(self.shapes) if j != without]
        return np.concatenate(rows) if rows else np.empty((0, len(self.curve)))

    def context(self, j: int) -> Context:
        return Context(self.curve, self.basis, self._stack(j), float(self.floor[0]))

    def transitions(self, resamples: np.ndarray | None) -> tuple[Transition, ...]:
        full = self._full()
        rivals = superfluous(self.curve, self.basis, self.floor, full, self._stack())
        found = [self._describe(j, full, p, resamples) for j, p in enumerate(rivals)]
        return tuple(sorted(found, key=lambda one: float(one.times[1, 0])))

    def _describe(self, j: int, full: Fits, rival: float, resamples: np.ndarray | None) -> Transition:
        stack, n = self._stack(j), len(self.curve)
        noise = KINDS[int(full.kind[0])]
        columns = np.concatenate([design(self.basis.fine[full.background[0]], stack), self.shapes[j].at(self.basis.u)])
        weights = coefficients(self.curve, columns, noise)
        residual = noise.whitened(self.curve - weights @ columns)
        shifts = None if resamples is None else resampled(self.context(j), self.fits[j], int(full.kind[0]), resamples)
        times = self.fits[j].quantiles(self.basis.u, shifts)
        size, u, whole = float(weights[-1]), self.basis.u, weights @ columns
        # Levels are those that the curve has then: what overlaps with this transition is in them too.
        beside = weights[:-1] @ columns[:-1]
        before = float(np.interp(times[0, 0], u, beside))
        after = float(np.interp(times[2, 0], u, beside) + size if times[2, 0] <= u[-1] else whole[-1])
        start, stop = (float(level) for level in np.clip((before, after), whole.min(), whole.max()))
        change = after - before
        others = [one for k, one in enumerate(self.shapes) if k != j]
        along = [one for one, of_other in zip(others, weights[2:-1], strict=True) if of_other * size > 0]
        rests: list[tuple[np.ndarray, Sequence[Shapes]]] = [(weights[1] * columns[1], ())]
        if others:
            rests.append((weights[1:-1] @ columns[1:-1], along))
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
            min(prominence(u, rest, size, self.shapes[j], near) for rest, near in rests),
            float(np.diff(np.interp(times[[0, 2], 0], u, whole))[0] / way) if way else 0.0,
            int((u <= times[0, 0]).sum()),
            int((u >= times[2, 0]).sum()),
            noise.correlation,
            self._walk(times, change),
            self.shapes[j],
        )

    def _walk(self, times: np.ndarray, change: float) -> float:
        length = ((self.basis.u >= times[0, 0]) & (self.basis.u <= times[2, 0])).sum() + 1
        step = float(scipy.stats.median_abs_deviation(np.diff(self.curve), scale="normal"))
        largest = float(np.sqrt(2 * np.log(max(len(self.curve) / length, 1.0))))
        return abs(change) / (step * float(np.sqrt(length))) - largest if step > 0 else float("inf")
