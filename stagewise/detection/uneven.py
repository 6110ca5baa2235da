"""Curves with finer checkpoints in a stretch, as a densified run has: thinned, and with noise that fades over steps."""

import numpy as np
import pandas as pd

FINER = 0.5
"""Part of the largest gap so far below which a gap between checkpoints is finer than the schedule."""

FADING = np.geomspace(0.25, 64, 33)
"""Steps over which noise may fade to 1/e, over the smallest gap between checkpoints."""


def thinned(curve: pd.DataFrame) -> pd.DataFrame:
    """Return a curve without the checkpoints of stretches that are finer than what lies before them.

    Log-spaced and linear schedules, whose gaps do not shrink, stay as they are, and so does the last checkpoint.

    >>> thinned(pd.DataFrame({"step": [0, 1, 2, 4, 8, 12, 13, 14, 15, 16, 20]}))["step"].tolist()
    [0, 1, 2, 4, 8, 12, 14, 16, 20]
    """
    steps = curve["step"].to_numpy()
    chosen, largest = [0], 0
    for i in range(1, len(steps)):
        gap = steps[i] - steps[chosen[-1]]
        if gap >= FINER * largest or i == len(steps) - 1:
            chosen.append(i)
            largest = max(largest, gap)
    return curve if len(chosen) == len(steps) else curve.iloc[chosen]


def noise_like(
    steps: np.ndarray, residual: np.ndarray, parameters: int, generator: np.random.Generator, number: int
) -> np.ndarray:
    """Return draws of noise as that of residuals, [draw, step]: its correlation fades exponentially with the steps.

        cov(s, t) = deviation^2 exp(-|s - t| / fading),   fading by maximum likelihood

    Args:
        steps: ascending, in any distances.
        residual: of a fit to a curve at these steps.
        parameters: of that fit, by which the residuals are too small.
        generator: of the draws.
        number: how many.

    Source: the Ornstein-Uhlenbeck process, which is AR(1) where the distances are equal.
    """
    gaps = np.diff(steps).astype(float)
    _, variance, fading = max(_fit(gaps, residual, fading * gaps.min()) for fading in FADING)
    variance *= len(residual) / max(len(residual) - parameters, 1)
    covariance = variance * np.exp(-np.abs(steps[:, None] - steps[None]) / fading)
    factor = np.linalg.cholesky(covariance + 1e-9 * max(variance, 1e-30) * np.eye(len(steps)))
    return np.asarray(generator.standard_normal((number, len(steps))) @ factor.T)


def _fit(gaps: np.ndarray, residual: np.ndarray, fading: float) -> tuple[float, float, float]:
    """Return the log likelihood of residuals under noise that fades over so many steps, its variance, and the steps."""
    kept = np.exp(-gaps / fading)
    share = 1 - kept**2
    innovations = np.concatenate([residual[:1], (residual[1:] - kept * residual[:-1]) / np.sqrt(share)])
    variance = float((innovations**2).mean())
    if variance == 0:
        return np.inf, 0.0, fading
    return float(-0.5 * (len(residual) * np.log(variance) + np.log(share).sum())), variance, fading
