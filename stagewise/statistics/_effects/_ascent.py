"""Coordinate ascent over the effects of many fits at once: each the posterior of one shape, given the others.

Wang, Sarkar, Carbonetto and Stephens (2020), JRSS-B 82, 1273: iterative Bayesian stepwise selection. Here the noise is
correlated, changes share a prior of their widths, and their sizes may be alike.
"""

import dataclasses

import numpy as np
from scipy.special import gammaln

from stagewise.statistics._effects._fits import Fits, Problem, by_parts


def ascended(problem: Problem, fits: Fits, sweeps: int) -> Fits:
    """Return fits after some sweeps over their effects."""
    return by_parts(lambda part: _Ascent(problem, part).run(sweeps), fits)


class _Ascent:
    """Fits: `parts` are the products of the atoms with each effect's mean, `total` their sum."""

    def __init__(self, problem: Problem, fits: Fits) -> None:
        s, of, atoms = problem.settings, problem.covariances, problem.atoms
        self.problem, self.fits, self.s, self.of, self.few = problem, fits, s, of, fits.changes
        self.effects = fits.shape.shape[1]
        columns, curves = atoms.columns[fits.atoms], problem.curves[fits.curve][:, None]
        under = of.inverse(fits.setting, curves)[:, 0]
        self.own, self.along = (under * curves[:, 0]).sum(1), _product(columns, under)
        self.products = of.among(atoms.columns, fits.setting, fits.atoms)
        self.norms = np.diagonal(self.products, axis1=1, axis2=2)
        is_change, prior = fits.atoms >= atoms.first_change, atoms.prior[fits.atoms]
        self.prior = [np.where(here, prior, -np.inf) for here in (~is_change, is_change)]
        self.family, self.reach = atoms.of_family[fits.atoms].astype(float), problem.reach[fits.curve]
        self.shape, self.size = fits.shape.copy(), fits.size.copy()
        self.parts = [_product(self.products, mean) for mean in (self.shape * self.size).transpose(1, 0, 2)]
        self.total = np.sum(self.parts, axis=0)
        self.shares = np.matmul(self.shape[:, : self.few], self.family)
        self.gains, self.divergence, self.spread, self.squares = np.zeros((4, len(fits), self.effects))
        self._set_noise(0.0)
        self._set_prior(fits.variance)

    def run(self, sweeps: int) -> Fits:
        """Return the fits after some sweeps."""
        for _ in range(sweeps):
            prepared = [self._prepared(np.zeros_like(self.mean), self.reach, self.prior[0])]
            if self.few:
                prepared.append(self._prepared(self.mean, self.variance, self.prior[1]))
            for e in range(self.effects):
                self._update(e, *prepared[e < self.few])
            evidence = self._evidence(self._set_noise(self.spread.sum(1)))
            free = (self.squares[:, : self.few].sum(1) + self.s.size**2) / (self.few + 1)
            self._set_prior(np.minimum(free, 1))
        return dataclasses.replace(
            self.fits, shape=self.shape, size=self.size, variance=self.variance, noise=self.noise, evidence=evidence,
            gains=self.gains,
        )  # fmt: skip

    def _prepared(self, mean: np.ndarray, variance: np.ndarray, prior: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return what the update of an effect needs and does not change: the shrinkage over the noise, the log prior
        with the size integrated out, and the pull of the sizes' mean.
        """
        shrinkage = variance[:, None] / (self.norms * variance[:, None] + self.noise[:, None])
        base = 0.5 * np.log(shrinkage * (self.noise / variance)[:, None]) - (0.5 * mean**2 / variance)[:, None] + prior
        return shrinkage, base, (self.noise * mean / variance)[:, None]

    def _update(self, e: int, shrinkage: np.ndarray, base: np.ndarray, pull: np.ndarray) -> None:
        """Set an effect to its posterior given the others."""
        left = self.along - self.total + self.parts[e]
        size = shrinkage * (left + pull)
        log = size * (left + pull) * (0.5 / self.noise)[:, None] + base
        if e < self.few:
            of_others = self.shares.sum(1) - self.shares[:, e] + self.s.sharing / self.family.shape[2]
            common = np.log(of_others / (self.s.sharing + self.few - 1))
            log += _product(self.family, common)
        top = log.max(1, keepdims=True)
        weight = np.exp(log - top)
        whole = weight.sum(1, keepdims=True)
        weight /= whole
        mean = weight * size
        own = _product(self.products, mean)
        self.total += own - self.parts[e]
        self.parts[e], self.shape[:, e], self.size[:, e] = own, weight, size
        second = mean * size + weight * shrinkage * self.noise[:, None]
        expected = (self.norms * second).sum(1)
        self.squares[:, e], self.spread[:, e] = second.sum(1), expected - (mean * own).sum(1)
        self.gains[:, e] = (top + np.log(whole))[:, 0]
        self.divergence[:, e] = ((mean * left).sum(1) - 0.5 * expected) / self.noise - self.gains[:, e]
        if e < self.few:
            self.shares[:, e] = np.matmul(weight[:, None], self.family)[:, 0]
            # The families' prior is that of all changes together: see `_evidence`.
            self.divergence[:, e] += (self.shares[:, e] * common).sum(1)

    def _set_noise(self, spread: np.ndarray | float) -> np.ndarray:
        """Set the variance of the noise, unless errors give it; return the squares that are expected to remain."""
        mean = (self.shape * self.size).sum(1)
        rest = np.maximum(self.own + (mean * (self.total - 2 * self.along)).sum(1), 0) + spread
        self.noise = self.problem.noise(rest)
        return np.asarray(rest)

    def _set_prior(self, free: np.ndarray) -> None:
        """Set the mean of the sizes of changes and their variance about it, which is free where they are not alike."""
        number = max(self.few, 1)
        means = (self.shape[:, : self.few] * self.size[:, : self.few]).sum((1, 2)) / number
        self.mean = np.where(self.fits.alike, means, 0)
        close = np.maximum(self.s.alike * np.abs(self.mean), 1e-3) ** 2
        self.variance = np.where(self.fits.alike, close, free)

    def _evidence(self, rest: np.ndarray) -> np.ndarray:
        """Return the bound on the log likelihood, the families of changes integrated over their shares."""
        s, few, each = self.s, self.few, self.s.sharing / self.family.shape[2]
        evidence = -0.5 * (self.of.freedom * np.log(2 * np.pi * self.noise) + rest / self.noise)
        evidence = evidence - self.divergence.sum(1) - self.of.surprise[self.fits.setting]
        if few:
            counts = self.shares.sum(1)
            evidence += gammaln(s.sharing) - gammaln(s.sharing + few) + (gammaln(each + counts) - gammaln(each)).sum(1)
            # The mean of sizes that are alike is a parameter: what it was before, over how well it is known.
            cost = 0.5 * np.log(s.size**2 * few / self.variance) + 0.5 * (self.mean / s.size) ** 2 + np.log(2)
            evidence -= np.where(self.fits.alike, cost, 0)
        return np.asarray(evidence)


def _product(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    return np.asarray(np.matmul(matrices, vectors[..., None])[..., 0])
