"""Power laws over the columns of a sweep, fitted to times that are known to an interval or censored."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import scipy

from stagewise.papers.law_terms import Columns, column, decided, design_of, positive, settings_of, terms_of
from stagewise.papers.law_terms import NoLaw as NoLaw
from stagewise.statistics import LEVEL

DERIVATIVE_STEP = 3e-3
"""Step of a numerical derivative, in deviations of log times from their law."""

MOST_DECIDED = 0.95
"""Part of itself, at most, that a setting is taken to decide of a law: of one that decides all, no error is seen."""

ROUNDING = 1e-15
"""Narrowest interval of the normal distribution, in log probability, that float64 still distinguishes from none."""


@dataclasses.dataclass(frozen=True)
class PowerLaw:
    """time = constant * term_1^exponent_1 * term_2^exponent_2 ...

    Args:
        terms: the formula's terms, each an expression over the sweep's columns.
        constant: at terms equal to one.
        exponents: one a term.
        lo: lower ends of the 95 % intervals, of the constant first, then of the exponents.
        hi: upper ends.
        r_squared: share of the variance of log time that the law explains.
        n: number of runs.
        n_censored: how many of them were right-censored.
    """

    terms: tuple[str, ...]
    constant: float
    exponents: tuple[float, ...]
    lo: tuple[float, ...]
    hi: tuple[float, ...]
    r_squared: float
    n: int
    n_censored: int = 0

    def __str__(self) -> str:
        censored = f", {self.n_censored} censored" if self.n_censored else ""
        return f"{self.formula(intervals=True)} (R2 {self.r_squared:.4f}, {self.n} runs{censored})"

    def formula(self, *, intervals: bool = False) -> str:
        """Write the law, as in "1.51 T^0.99 d^0.49", its exponents with their intervals if asked."""
        powers = [
            f"{term if term.isidentifier() else f'({term})'}^{exponent:.2f}" + (f" [{lo:.2f}, {hi:.2f}]" * intervals)
            for term, exponent, lo, hi in zip(self.terms, self.exponents, self.lo[1:], self.hi[1:], strict=True)
        ]
        return " ".join([f"{self.constant:.3g}", *powers])

    def predict(self, runs: Columns) -> np.ndarray:
        """Return the law's time for every row of a sweep."""
        logs = design_of(runs, self.terms) @ np.array([math.log(self.constant), *self.exponents])
        times: np.ndarray = np.exp(logs)
        return times

    def exponent(self, term: str) -> float:
        """Return the exponent of a term.

        Raises:
            ValueError: the law has no such term.
        """
        if term not in self.terms:
            raise ValueError(f"the law has no term {term!r}; it has {', '.join(self.terms)}")
        return self.exponents[self.terms.index(term)]


def fit_log_linear(runs: Columns, law: str, time: str = "time") -> PowerLaw:
    """Fit a law by least squares on log time, with Student's t intervals.

    Args:
        runs: a row a run: the law's columns and the time.
        law: terms separated by commas, each an expression over the columns: "T / B, d".
        time: the column of times, all known exactly (or to what little an evaluation period adds).

    Raises:
        NoLaw: fewer runs than needed, or a column that does not vary.
        ValueError: no such column, times or terms that are not positive and finite (a censored time is not: use
            `fit_interval_censored`).

    >>> runs = {"d": [1.0, 2.0, 4.0, 8.0], "time": [3.0, 6.0, 12.0, 24.0]}
    >>> round(fit_log_linear(runs, "d").exponent("d"), 6)
    1.0
    """
    terms = terms_of(law)
    design = decided(design_of(runs, terms), terms)
    target = np.log(positive(column(runs, time), time))
    freedom = len(design) - design.shape[1]
    coefficients = np.linalg.lstsq(design, target, rcond=None)[0]
    residual = target - design @ coefficients
    errors = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * (residual @ residual) / freedom)
    r_squared = 1 - residual @ residual / ((target - target.mean()) ** 2).sum()
    return law_of(
        terms, coefficients, errors * scipy.stats.t.ppf((1 + LEVEL) / 2, freedom), float(r_squared), len(design), 0
    )


def fit_interval_censored(
    runs: Columns, law: str, lo: str = "lo", hi: str = "hi", settings: str | None = None
) -> PowerLaw:
    """Fit a law by maximum likelihood to times known to lie in (lo, hi]; hi = inf is right-censored.

        log time ~ N(log law, s^2),   P(run) = Phi((log hi - log law) / s) - Phi((log lo - log law) / s)

    s is at least the standard deviation of a uniform distribution in the median interval, the resolution of the times.
    Intervals are Wald's, from the curvature of the likelihood, times n / (n - k) in the variance, since the likelihood
    takes s too small, with quantiles of Student's t; n counts the runs with a known time, k the numbers fitted. With a
    column of settings, runs of one setting are one observation for that: the errors are clustered by it (Bell and
    McCaffrey, 2002), quantiles are of as many degrees of freedom as there are settings less k, and no interval is
    narrower than without. R^2 is var(log law) / (var(log law) + s^2).

    Args:
        runs: a row a run: the law's columns, `lo` and `hi`, as `find_emergence_times` gives them.
        law: terms separated by commas, each an expression over the columns: "N_pairs, N_tokens".
        lo: column of the last evaluation before.
        hi: column of the first evaluation after; inf where there was none.
        settings: column that is the same in the seeds of one setting, whose times have more in common than the law
            says; None takes all runs as independent.

    Raises:
        NoLaw: every run is censored, too few are not, those that are not do not vary in a term, or they are of no more
            settings than numbers to fit.
        ValueError: what `fit_log_linear` refuses; times that are no intervals.
    """
    terms = terms_of(law)
    lower, upper = column(runs, lo), column(runs, hi)
    if not ((lower < upper) & (lower >= 0)).all():
        wrong = int(np.argmin((lower < upper) & (lower >= 0)))
        raise ValueError(f"each run needs 0 <= {lo} < {hi}; row {wrong} has {lower[wrong]:g} and {upper[wrong]:g}")
    seen = np.isfinite(upper)
    if len(seen) and not seen.any():
        raise NoLaw(f"all {len(seen)} runs are censored: none emerged within its budget, so there is no law to fit")
    design = design_of(runs, terms)
    decided(design[seen], terms)
    if not (lower[seen] > 0).any():
        raise NoLaw(f"every run emerged before its second evaluation: all {lo} are 0; evaluate more often")
    with np.errstate(divide="ignore"):
        bounds = np.log(lower), np.log(upper)
    estimate, covariance = _maximise(design, *bounds, seen)
    fitted = design @ estimate[:-1]
    r_squared = fitted.var() / (fitted.var() + np.exp(2 * estimate[-1]))
    number, k = int(seen.sum()), design.shape[1]
    if covariance[-1, -1] == 0:  # s is then the resolution of the times, and not estimated
        errors = _margin(covariance, math.inf)
    else:
        errors = _margin(covariance * number / max(number - k, 1), max(number - k, 1))
    if settings is not None:
        groups = settings_of(runs, settings)
        if (number := len(set(groups[seen]))) <= k:
            raise NoLaw(
                f"a law of {law} has {k} numbers to fit: errors clustered by {settings} need more settings with a "
                f"known time than that, got {number}"
            )
        clustered = _clustered(design, *bounds, estimate, covariance, groups)
        errors = np.maximum(errors, _margin(clustered, number - k))
    return law_of(terms, estimate[:-1], errors, float(r_squared), len(design), int((~seen).sum()))


def _margin(covariance: np.ndarray, freedom: int | float) -> np.ndarray:
    """Return the 95 % margin on either side of coefficients, by Student's t with these degrees of freedom."""
    return np.asarray(np.sqrt(np.diag(covariance)[:-1]) * scipy.stats.t.ppf((1 + LEVEL) / 2, freedom))


def _maximise(
    design: np.ndarray, lower: np.ndarray, upper: np.ndarray, seen: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients with log s last, and their covariance."""
    # Two thirds of a first interval that starts at 0 is as good a start as any.
    middle = np.where(np.isfinite(lower), (lower + upper) / 2, upper + math.log(2 / 3))
    start = np.linalg.lstsq(design[seen], middle[seen], rcond=None)[0]
    spread = max(float((middle[seen] - design[seen] @ start).std()), 0.01)

    def loss(parameters: np.ndarray) -> float:
        fitted, scale = design @ parameters[:-1], math.exp(parameters[-1])
        return -float(_log_mass((lower - fitted) / scale, (upper - fitted) / scale).sum())

    estimate = _minimum(loss, np.array([*start, math.log(spread)]))
    # Where a law passes through every interval the likelihood grows as s falls: s is then one interval's.
    floor = math.log(float(np.median((upper - lower)[seen & np.isfinite(lower)])) / math.sqrt(12))
    if estimate[-1] > floor:
        return estimate, _inverse(_curvature(loss, estimate, design, math.exp(estimate[-1])))

    def at_floor(coefficients: np.ndarray) -> float:
        return loss(np.array([*coefficients, floor]))

    estimate = _minimum(at_floor, start)
    covariance = np.zeros((len(estimate) + 1,) * 2)
    covariance[:-1, :-1] = _inverse(_curvature(at_floor, estimate, design, math.exp(floor)))
    return np.array([*estimate, floor]), covariance


def _clustered(
    design: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    estimate: np.ndarray,
    covariance: np.ndarray,
    groups: np.ndarray,
) -> np.ndarray:
    """Return the covariance where runs of a group share what the law leaves: the sandwich of summed scores.

    A group that decides much of the law leaves little there: scores are divided by the root of what it does not decide.

    Source: Bell and McCaffrey (2002), Bias reduction in standard errors for linear regression with multi-stage samples.
    """
    fitted, scale = design @ estimate[:-1], math.exp(estimate[-1])

    def mass(shift: float) -> np.ndarray:
        return _log_mass((lower - fitted) / scale - shift, (upper - fitted) / scale - shift)

    before, here, after = (mass(shift) for shift in (-DERIVATIVE_STEP, 0.0, DERIVATIVE_STEP))
    slopes, bends = (
        (after - before) / (2 * DERIVATIVE_STEP * scale),
        (2 * here - before - after) / (DERIVATIVE_STEP * scale) ** 2,
    )
    scores, decided = np.zeros((groups.max() + 1, len(estimate))), np.zeros(groups.max() + 1)
    np.add.at(scores[:, :-1], groups, slopes[:, None] * design)
    np.add.at(decided, groups, bends * ((design @ covariance[:-1, :-1]) * design).sum(1))
    scores /= np.sqrt(1 - decided.clip(0, MOST_DECIDED))[:, None]
    return np.asarray(covariance @ scores.T @ scores @ covariance)


def _minimum(loss: Callable[[np.ndarray], float], start: np.ndarray) -> np.ndarray:
    solved = scipy.optimize.minimize(
        loss, start, method="Nelder-Mead", options={"maxiter": 20_000, "maxfev": 20_000, "xatol": 1e-8, "fatol": 1e-10}
    )
    return np.asarray(solved.x)


def _log_mass(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """log(Phi(b) - Phi(a)) for a < b, from whichever tail keeps its digits."""
    flip = a > 0
    a, b = np.where(flip, -b, a), np.where(flip, -a, b)
    high, low = scipy.stats.norm.logcdf(b), scipy.stats.norm.logcdf(a)
    mass: np.ndarray = high + np.log1p(-np.exp(np.minimum(low - high, -ROUNDING)))
    return mass


def _curvature(loss: Callable[[np.ndarray], float], at: np.ndarray, design: np.ndarray, scale: float) -> np.ndarray:
    """Return the Hessian by central differences, of steps that move log times by a small part of their scale."""
    steps = np.append(DERIVATIVE_STEP * scale / np.abs(design).max(0), DERIVATIVE_STEP)[: len(at)]
    n, unit = len(at), np.diag(steps)
    result = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            corners = (
                loss(at + unit[i] + unit[j]) - loss(at + unit[i] - unit[j])
                - loss(at - unit[i] + unit[j]) + loss(at - unit[i] - unit[j])
            )  # fmt: skip
            result[i, j] = corners / (4 * steps[i] * steps[j])
    return result


def _inverse(curvature: np.ndarray) -> np.ndarray:
    if not np.linalg.eigvalsh(curvature)[0] > 0:
        raise NoLaw("the likelihood has no peak: the runs with a known time, and those censored, decide no law")
    return np.linalg.inv(curvature)


def law_of(
    terms: tuple[str, ...], coefficients: np.ndarray, margin: np.ndarray, r_squared: float, n: int, n_censored: int
) -> PowerLaw:
    """Return the law of fitted coefficients, the logarithm of the constant first, with so much on either side."""
    lo, hi = coefficients - margin, coefficients + margin
    lo[0], hi[0] = np.exp(lo[0]), np.exp(hi[0])
    constant, exponents = float(np.exp(coefficients[0])), tuple(coefficients[1:].tolist())
    return PowerLaw(terms, constant, exponents, tuple(lo.tolist()), tuple(hi.tolist()), r_squared, n, n_censored)
