"""Intervals of means over few values, whose deviations are pooled over many such means."""

import numpy as np
import scipy
from jaxtyping import Float

from stagewise.statistics import LEVEL

LEAST_DEVIATION = 1e-6
"""Part of what deviations are in proportion to, below which values are the same within rounding."""

MOST_PRIOR_VALUES = 1000.0
"""Values that a deviation common to many means is worth at most."""


def half_widths(
    values: Float[np.ndarray, "value mean"], scale: Float[np.ndarray, " mean"], *, shared: bool = False
) -> Float[np.ndarray, " mean"]:
    """Return the half-width of the interval of each mean over its values; those that are nan do not count.

    The variance of a few values is hardly known: it is moderated towards what it is of all means, whose relative
    deviations, in units of `scale`, are taken as draws of one distribution, and Student's t has its degrees of freedom.
    Where columns vary together (`shared`), pooled deviations are smoother, but no better known than from one column.

    Source: Smyth (2004), Linear Models and Empirical Bayes Methods for Assessing Differential Expression in Microarray
    Experiments, equations 1 and 2, and section 6.2 for the prior.
    """
    n = np.isfinite(values).sum(0)
    freedom = n - 1.0
    own = np.nansum((values - np.nanmean(values, 0)) ** 2, 0) / freedom.clip(min=1)
    prior, prior_freedom = _prior(own, freedom, scale)
    together = freedom + prior_freedom
    variance = (freedom * own + prior_freedom * prior * scale**2) / together
    quantile = scipy.stats.t.ppf((1 + LEVEL) / 2, freedom if shared else together)
    return np.asarray(quantile * np.sqrt(variance / n))


def _prior(own: np.ndarray, freedom: np.ndarray, scale: np.ndarray) -> tuple[float, float]:
    """Return the variance of all columns, in units of their scale, and how many degrees of freedom it is worth."""
    seen = (scale > 0) & (own > (LEAST_DEVIATION * scale) ** 2)
    if seen.sum() < 2:
        return 0.0, 0.0
    half = freedom[seen] / 2
    logs = np.log(own[seen] / scale[seen] ** 2) - scipy.special.digamma(half) + np.log(half)
    spread = logs.var(ddof=1) - scipy.special.polygamma(1, half).mean()
    # Where the logarithms vary no more than so few values explain, no column has a variance of its own.
    prior_half = MOST_PRIOR_VALUES / 2
    if spread > scipy.special.polygamma(1, prior_half):
        prior_half = scipy.optimize.brentq(
            lambda x: scipy.special.polygamma(1, x) - spread, LEAST_DEVIATION, MOST_PRIOR_VALUES
        )
    return float(np.exp(logs.mean() + scipy.special.digamma(prior_half) - np.log(prior_half))), 2 * float(prior_half)
