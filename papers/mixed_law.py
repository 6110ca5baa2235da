"""Power laws over settings of several seeds each: a random effect of the setting, predictions, and which law it is."""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import scipy

from stagewise.papers.law_terms import NoLaw, column, decided, design_of, positive, settings_of, terms_of
from stagewise.papers.power_law import PowerLaw, law_of
from stagewise.statistics import LEVEL

RATIOS = (1e-4, 1e6)
"""Variance between settings over that between seeds of one: where it is searched; below is none between settings."""

SAME = float(np.log(1e5))
"""The logarithm of this ratio from which there is no variance between the seeds of a setting."""

DECIDED = 2.0
"""Standard errors by which a law predicts worse than the best one where it is decided against."""


@dataclasses.dataclass(frozen=True, eq=False)
class MixedLaw:
    """log time = log law + setting + seed, both normal.

    Args:
        law: the power law with its 95 % intervals.
        between: standard deviation of settings in log time: what the law leaves that seeds of a setting share.
        within: that of the seeds of one setting.
        covariance: of the logarithm of the constant and the exponents.
        freedom: degrees of freedom of Student's t: settings less the numbers fitted.
    """

    law: PowerLaw
    between: float
    within: float
    covariance: np.ndarray
    freedom: int

    def __str__(self) -> str:
        return f"{self.law}; left of log time: {self.between:.2f} between settings, {self.within:.2f} between seeds"

    def predict(self, runs: pd.DataFrame) -> pd.DataFrame:
        """Return the time of one run of each setting that was not fitted, with its 95 % interval: time, lo, hi."""
        design = design_of(runs, self.law.terms)
        coefficients = np.array([np.log(self.law.constant), *self.law.exponents])
        variance = ((design @ self.covariance) * design).sum(1) + self.between**2 + self.within**2
        margin = scipy.stats.t.ppf((1 + LEVEL) / 2, self.freedom) * np.sqrt(variance)
        middle = design @ coefficients
        times = {"time": np.exp(middle), "lo": np.exp(middle - margin), "hi": np.exp(middle + margin)}
        return pd.DataFrame(times, index=runs.index)


def fit_mixed(runs: pd.DataFrame, law: str, settings: str, time: str = "time") -> MixedLaw:
    """Fit a power law with a random effect of the setting, by restricted maximum likelihood (REML).

    Args:
        runs: a row a run: the law's columns, the setting and the time.
        law: terms separated by commas, each an expression over the columns.
        settings: column that is the same in the seeds of one setting, and differs between settings.
        time: the column of times, all known: of `find_emergence_times` the geometric mean of `lo` and `hi`, say.

    Raises:
        NoLaw: no more settings than numbers to fit, no setting with two seeds, or a term that does not vary.
        ValueError: no such column; times or terms that are not positive and finite (of a censored time use
            `fit_interval_censored`).

    Source: Patterson and Thompson (1971) for REML; the degrees of freedom are those between settings, which is exact
    where all have as many seeds.
    """
    terms = terms_of(law)
    return _fitted(
        terms, design_of(runs, terms), np.log(positive(column(runs, time), time)), settings_of(runs, settings)
    )


def _fitted(terms: tuple[str, ...], design: np.ndarray, target: np.ndarray, groups: np.ndarray) -> MixedLaw:
    """Fit a law to the logarithms of its terms [run, 1 + term] and of times, and the number of each run's setting."""
    number, k = int(groups.max()) + 1, decided(design, terms).shape[1]
    if number <= k or number == len(target):
        raise NoLaw(
            f"a law of {', '.join(terms)} with settings needs more than {k} of them and several seeds in some, got "
            f"{number} settings and {len(target)} runs: fit_log_linear takes each run as a setting"
        )
    low, high = np.log(RATIOS)

    def loss(log_ratio: float) -> float:
        return _restricted(design, target, groups, float(np.exp(log_ratio)))[0]

    best = float(scipy.optimize.minimize_scalar(loss, bounds=(low, high), method="bounded").x)
    ratio = float(np.exp(best)) if loss(best) < loss(low) else 0.0
    _, coefficients, unscaled, variance = _restricted(design, target, groups, ratio)
    if best > SAME:
        # Seeds of a setting whose times are the same, as to a checkpoint, are one observation, not several.
        variance *= (len(target) - k) / (number - k)
    freedom, covariance = number - k, variance * unscaled
    margin = scipy.stats.t.ppf((1 + LEVEL) / 2, freedom) * np.sqrt(np.diag(covariance))
    r_squared = 1 - ((target - design @ coefficients) ** 2).sum() / ((target - target.mean()) ** 2).sum()
    fitted = law_of(terms, coefficients, margin, float(r_squared), len(target), 0)
    return MixedLaw(fitted, float(np.sqrt(variance * ratio)), float(np.sqrt(variance)), covariance, freedom)


def compare_laws(runs: pd.DataFrame, laws: Sequence[str], settings: str, time: str = "time") -> pd.DataFrame:
    """Compare laws by how well each predicts the settings that it was not fitted to, one left out at a time.

    Returns a row a law, the best one first: `law`, the mean log `density` of the settings' mean log times, by how much
    it is `behind` the best one, with the standard error `behind_error` over settings, and as `verdict` "best", "worse"
    (by more than two standard errors) or "cannot be told".

    Raises:
        NoLaw: a law cannot be fitted to all settings but one.
        ValueError: no laws, or what `fit_mixed` refuses.
    """
    if not laws:
        raise ValueError("there are no laws to compare: give one or more, as in ['d', 'T / B, d']")
    groups = settings_of(runs, settings)
    densities = {law: np.array(list(_left_out(runs, law, groups, time))) for law in laws}
    order = sorted(densities, key=lambda law: -float(densities[law].mean()))
    best, scores = densities[order[0]], list[tuple[str, float, float, float, str]]()
    for law in order:
        gap = best - densities[law]
        behind, error = float(gap.mean()), float(gap.std(ddof=1) / np.sqrt(len(gap)))
        worse = "worse" if behind > DECIDED * error else "cannot be told"
        verdict = "best" if law == order[0] else worse
        scores.append((law, float(densities[law].mean()), behind, error, verdict))
    return pd.DataFrame(scores, columns=["law", "density", "behind", "behind_error", "verdict"])


def _restricted(
    design: np.ndarray, target: np.ndarray, groups: np.ndarray, ratio: float
) -> tuple[float, np.ndarray, np.ndarray, float]:
    """Return minus twice the restricted likelihood, the coefficients, their covariance over the variance, and that."""
    sizes = np.bincount(groups)[groups]
    # The inverse of I + ratio * J in a setting takes ratio / (1 + size * ratio) of the setting's sum off each run.
    part = ratio / (1 + sizes * ratio)

    def inverse(columns: np.ndarray) -> np.ndarray:
        sums = np.zeros((groups.max() + 1, columns.shape[1]))
        np.add.at(sums, groups, columns)
        return np.asarray(columns - part[:, None] * sums[groups])

    weighted = inverse(design)
    information = design.T @ weighted
    coefficients = np.linalg.solve(information, weighted.T @ target)
    residual = (target - design @ coefficients)[:, None]
    freedom = len(target) - design.shape[1]
    variance = float((residual * inverse(residual)).sum()) / freedom
    size = np.log1p(np.bincount(groups) * ratio).sum() + np.linalg.slogdet(information)[1]
    return float(freedom * np.log(max(variance, 1e-300)) + size), coefficients, np.linalg.inv(information), variance


def _left_out(runs: pd.DataFrame, law: str, groups: np.ndarray, time: str) -> Iterator[float]:
    """Yield of each setting the log density of its mean log time under the law of all other settings."""
    terms = terms_of(law)
    design, target = design_of(runs, terms), np.log(positive(column(runs, time), time))
    for number in range(groups.max() + 1):
        here = groups == number
        others = groups[~here]
        fitted = _fitted(terms, design[~here], target[~here], others - (others > number))
        row = design[here][0]
        middle = float(row @ np.array([np.log(fitted.law.constant), *fitted.law.exponents]))
        variance = float(row @ fitted.covariance @ row) + fitted.between**2 + fitted.within**2 / int(here.sum())
        yield float(scipy.stats.t.logpdf(float(target[here].mean()), fitted.freedom, middle, np.sqrt(variance)))
