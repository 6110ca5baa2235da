"""Noise about a growth on a plateau, which fades exponentially over steps: of few checkpoints, in any distances."""

import numpy as np

PLATEAU_FADING = np.geomspace(0.25, 64, 33)
"""Steps over which noise may fade to 1/e, over the smallest gap between checkpoints."""


def plateau_noise(
    steps: np.ndarray, residual: np.ndarray, parameters: int, generator: np.random.Generator, number: int
) -> np.ndarray:
    """Return draws of noise as that of residuals, [draw, step]: its correlation fades exponentially with the steps.

        cov(s, t) = deviation^2 exp(-|s - t| / fading),   fading by maximum likelihood

    The errors of a forecast's form were set with this noise. Source: the Ornstein-Uhlenbeck process.
    """
    gaps = np.diff(steps).astype(float)
    _, variance, fading = max(_fading(gaps, residual, fading * gaps.min()) for fading in PLATEAU_FADING)
    variance *= len(residual) / max(len(residual) - parameters, 1)
    covariance = variance * np.exp(-np.abs(steps[:, None] - steps[None]) / fading)
    factor = np.linalg.cholesky(covariance + 1e-9 * max(variance, 1e-30) * np.eye(len(steps)))
    return np.asarray(generator.standard_normal((number, len(steps))) @ factor.T)


def _fading(gaps: np.ndarray, residual: np.ndarray, fading: float) -> tuple[float, float, float]:
    """Return the log likelihood of residuals under noise that fades over so many steps, its variance, and the steps."""
    kept = np.exp(-gaps / fading)
    share = 1 - kept**2
    innovations = np.concatenate([residual[:1], (residual[1:] - kept * residual[:-1]) / np.sqrt(share)])
    variance = float((innovations**2).mean())
    if variance == 0:
        return np.inf, 0.0, fading
    return float(-0.5 * (len(residual) * np.log(variance) + np.log(share).sum())), variance, fading
