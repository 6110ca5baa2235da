"""What a curve's model says: its transitions, each with its size, its levels, its times and its evidence."""

import itertools
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from stagewise.statistics import _constants as c
from stagewise.statistics._differences import running_median
from stagewise.statistics._effects._atoms import PARTS, Kind
from stagewise.statistics._effects._fits import Fits, Problem
from stagewise.statistics._effects._selection import Selection
from stagewise.statistics._effects._transition import Transition, prominence, told_apart


class CurveModel(NamedTuple):
    """The transitions of a curve in their order, and the size from which a change in the middle of the run would have
    been told: None where the quantity cannot change by as much.
    """

    transitions: tuple[Transition, ...]
    visible: float | None


class Told(NamedTuple):
    """A curve with the selection of its fits; `span` is the largest size that the quantity can have, `resamples` are
    other draws of what the curve was measured on, [draw, step].
    """

    problem: Problem
    selection: Selection
    curve: int
    span: float
    resamples: np.ndarray | None = None

    @property
    def u(self) -> np.ndarray:
        """The steps, as log(1 + step)."""
        return self.problem.u

    @property
    def unit(self) -> float:
        """What the curve was divided by then."""
        return float(self.problem.unit[self.curve])

    def model(self) -> CurveModel:
        """Return what the selection says."""
        fits, best = self.selection.fits, int(self.selection.fits.evidence.argmax())
        smooth, rest = self._split(best)
        variance = fits.noise[best] if self.problem.covariances.scaled else np.mean(np.square(rest))
        noise, fitted = self.unit * float(np.sqrt(variance)), self.problem.centre[self.curve] + self.unit * smooth
        weight = softmax(fits.evidence)
        each = enumerate(self.selection.bayes.tolist())
        transitions = [self._transition(weight, e, bayes, fitted, noise) for e, bayes in each]
        transitions.sort(key=lambda each: float(each.times[1, 0]))
        transitions = told_apart(transitions, self.u, fitted, self.problem.settings)
        lasting, nearly = self._lasting(transitions), self.problem.settings.nearly
        overs, begins = [0.0, *(one.times[2, 0] for one in lasting)], [*(one.times[0, 0] for one in lasting), np.inf]
        around = zip(lasting, overs[:-1], begins[1:], strict=True)
        transitions = [one._replace(prominence=prominence(one, self.u, fitted, near, nearly)) for one, *near in around]
        size = _visible(self.problem, fits, best) * self.unit
        return CurveModel(tuple(transitions), size if size <= self.span else None)

    @property
    def values(self) -> np.ndarray:
        """The curve as it was given."""
        return np.asarray(self.problem.curves[self.curve] * self.unit + self.problem.centre[self.curve])

    def _split(self, fit: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the curve without what a fit takes for noise and without excursions, and that noise, in the unit."""
        fits, atoms, curve = self.selection.fits, self.problem.atoms, self.problem.curves[self.curve]
        means, columns = (fits.shape[fit] * fits.size[fit]).sum(0), atoms.columns[fits.atoms[fit]]
        brief = atoms.kind[fits.atoms[fit]] == Kind.EXCURSION
        noise = self.problem.covariances.noise_in(curve - means @ columns, int(fits.setting[fit]))
        return curve - noise - means[brief] @ columns[brief], noise

    def _transition(self, weight: np.ndarray, e: int, bayes: float, fitted: np.ndarray, noise: float) -> Transition:
        """Return an effect over settings, each weighted by its evidence."""
        fits, atoms = self.selection.fits, self.problem.atoms
        posterior, means = np.zeros((2, len(atoms.kind)))
        np.add.at(posterior, fits.atoms, weight[:, None] * fits.shape[:, e])
        np.add.at(means, fits.atoms, weight[:, None] * fits.shape[:, e] * fits.size[:, e])
        posterior = np.where(atoms.kind == Kind.CHANGE, posterior, 0)
        posterior /= posterior.sum()
        size = float(np.clip(self.unit * weight @ (fits.shape[:, e] * fits.size[:, e]).sum(1), -self.span, self.span))
        within_gap = bool(posterior[atoms.jumps].sum() > 0.5)
        shown = np.where(atoms.family == 0, posterior, 0) if within_gap else posterior
        times = np.array([_quantiles(atoms.times[:, k], atoms.cell[:, k], shown) for k in range(len(PARTS))])
        if within_gap:
            times[:, 1] = self.u[(np.searchsorted(self.u, times[:, 1], side="right") - 1).clip(min=0)]
            times[:, 2] = self.u[np.searchsorted(self.u, times[:, 2], side="left").clip(max=len(self.u) - 1)]
        else:
            place = int(np.searchsorted(self.u, times[1, 0], side="right"))
            times = self._widened(times, e)
            margin = self.problem.settings.margin * np.diff(self.u)[min(place, len(self.u) - 1) - 1]
            times[:, 1:] += margin * np.array([-1, 1])
        before, after = self._levels(times, fitted, means)
        p_value = min(1.0, self.problem.asked(self.problem.settings.false) * float(np.exp(-bayes)))
        return Transition(size, before, after, times, bayes, p_value, within_gap, noise)

    def _levels(self, times: np.ndarray, fitted: np.ndarray, means: np.ndarray) -> tuple[float, float]:
        """Return the levels of the fitted curve before and after a transition: at t10 less what is made of it there, at
        t90 with all of it, and of a jump at the ends of its gap.
        """
        own = (means * self.unit) @ self.problem.atoms.columns
        rest = fitted - own + own[0]
        before, after = np.interp([min(times[0, 0], times[1, 1]), max(times[2, 0], times[1, 2])], self.u, rest)
        levels = np.clip([before, after + own[-1] - own[0]], self.values.min(), self.values.max())
        return float(levels[0]), float(levels[1])

    def _lasting(self, transitions: list[Transition]) -> list[Transition]:
        """Return those that are no part of an excursion: what the curve soon comes back from, or the way back. The
        shortest excursion is left out first, and then what it hid: a collapse soon after a rise does not undo that.
        """
        left, smooth, s = list(transitions), running_median(self.values), self.problem.settings
        there, soon = np.ones(len(self.u), bool), max(s.brief + 1, round(s.soon * len(self.u)))

        def undone(one: Transition, way: int, until: float) -> bool:
            """Whether a curve is soon after a transition where it was before, or was soon before where it is after."""
            begins, ends, end = np.searchsorted(self.u, [*one.times[[0, 2], 0], until], side="right")
            stretch = slice(ends, end) if way > 0 else slice(end, begins)
            near = smooth[stretch][there[stretch]][::way][:soon] - (one.before if way > 0 else one.after)
            return bool(np.abs(near).min(initial=np.inf) < s.undone * abs(one.size))

        while True:
            made = [(one.after - one.before) / one.size >= s.undone for one in left]  # the rest does not make up for it
            half = np.searchsorted(self.u, [one.times[1, 0] for one in left], side="right")
            back = [
                k for k, (a, b) in enumerate(itertools.pairwise(left))
                if all(made[k : k + 2]) and s.like < -b.size / a.size < 1 / s.like
                and there[half[k] : half[k + 1]].sum() <= soon and (undone(a, 1, np.inf) or undone(b, -1, -np.inf))
            ]  # fmt: skip
            if not back:
                break
            ways = [np.searchsorted(self.u, [left[k].times[0, 0], left[k + 1].times[2, 0]], side="right") for k in back]
            shortest = int(np.argmin([there[slice(*way)].sum() for way in ways]))
            there[slice(*ways[shortest])] = False
            del left[back[shortest] : back[shortest] + 2]
        overs, begins = [-np.inf, *(one.times[2, 0] for one in left)], [*(one.times[0, 0] for one in left), np.inf]
        around = zip(left, overs[:-1], begins[1:], strict=True)
        return [one for one, over, begin in around if not undone(one, 1, begin) and not undone(one, -1, over)]

    def _widened(self, times: np.ndarray, e: int) -> np.ndarray:
        """Return times with what the draws of the data say of them: by how much each one's effect is moved."""
        if self.resamples is None:
            return times
        fits, of = self.selection.fits, self.problem.covariances
        best = int(fits.evidence.argmax())
        parts = (fits.shape[best] * fits.size[best]) @ self.problem.atoms.columns[fits.atoms[best]]
        rest = (self.resamples - self.problem.centre[self.curve]) / self.unit - (parts.sum(0) - parts[e])
        # An effect that comes later by a little differs by that much of its slope.
        rows = np.stack([parts[e], -np.gradient(parts[e], self.u)])
        within = of.inverse(fits.setting[[best]], rows[None])[0]
        scale, moved = np.linalg.lstsq(within @ rows.T, within @ rest.T, rcond=None)[0]
        # By more than it lasts no slope tells.
        deviation = float(np.std(moved / np.where(scale == 0, 1, scale), ddof=1))
        spread = min(c.QUANTILE * deviation, times[2, 0] - times[0, 0])
        return np.concatenate([times[:, :1], times[:, :1] + np.hypot(times[:, 1:] - times[:, :1], spread) * [-1, 1]], 1)


def _quantiles(middle: np.ndarray, cell: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the median and the 95 % interval of a mixture of uniform distributions over cells."""
    some = weight > 1e-5
    middle, cell, weight = middle[some], np.maximum(cell[some], 1e-9), weight[some] / weight[some].sum()
    edges = np.unique(np.concatenate([middle - cell / 2, middle + cell / 2]))
    below = (((edges[:, None] - middle + cell / 2) / cell).clip(0, 1) * weight).sum(1)
    return np.asarray(np.interp([0.5, 0.025, 0.975], below, edges))


def _visible(problem: Problem, fits: Fits, best: int) -> float:
    """Return the size, in units, of a jump whose log Bayes factor reaches the threshold at half of the places."""
    s, atoms, noise = problem.settings, problem.atoms, float(fits.noise[best])
    norms = problem.covariances.lengths(atoms.columns, int(fits.setting[best]))[atoms.jumps]
    surprise = np.log(atoms.of_family.shape[1]) - atoms.prior[atoms.jumps]
    needed = problem.asked(s.threshold) + surprise + 0.5 * np.log1p(norms * s.size**2 / noise)
    squares = 2 * noise / norms * needed * (1 + noise / (norms * s.size**2))
    return float(np.sqrt(np.median(squares)))
