"""Noise at steps in any distances, as of a densified run: it fades over steps, and may swing meanwhile."""

from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Float

from stagewise.statistics import _constants as c


class Stretch(NamedTuple):
    """Values at ascending steps, in any distances, and the columns of what is fitted to them."""

    steps: Float[np.ndarray, " step"]
    values: Float[np.ndarray, " step"]
    columns: Float[np.ndarray, "step column"]

    @property
    def middle(self) -> "Stretch":
        """The part that is enough to tell how noise fades."""
        first = max(len(self.steps) - c.ENOUGH, 0) // 2
        return Stretch(*(each[first : first + c.ENOUGH] for each in self))


class Fading(NamedTuple):
    """How far noise at two steps is alike: less with the distance, or opposite where it swings.

    With x = |s - t| / steps, the correlation is

        exp(-x) (cos(swing x) + smooth sin(swing x) / swing)

    Without a swing this is AR(1) noise, or Matern's of order 3/2, which is smooth; with one, that of a damped
    oscillator that noise pushes, as the weights are under momentum: the smooth one is its place.
    """

    steps: float
    swing: float = 0.0
    smooth: bool = False

    @classmethod
    def of_rate(cls, rate: float) -> "Fading":
        """Return AR(1) noise of a correlation between neighbours, which are one step apart."""
        return cls(-1 / float(np.log(max(rate, c.NUGGET))))

    def correlations(self, steps: Float[np.ndarray, " step"]) -> Float[np.ndarray, "step step"]:
        """Return the correlation between each two of some steps."""
        x = np.abs(steps[:, None] - steps) / self.steps
        swings = np.cos(self.swing * x) + self.smooth * x * np.sinc(self.swing * x / np.pi)
        return np.asarray((np.exp(-x) * swings + c.NUGGET * np.eye(len(steps))) / (1 + c.NUGGET))


def noise_like(
    valley: Stretch, later: Stretch | None, generator: np.random.Generator, number: int
) -> Float[np.ndarray, "draw step"]:
    """Return draws of noise as that of a stretch: its correlation fades with the steps, and may swing meanwhile.

    How it fades, `Fading`, is drawn anew for each draw, as likely as the stretch and a later one of the same curve make
    it (a few checkpoints alone do not tell slow noise from the shape); its level is that of the stretch. The likelihood
    is the restricted one: fitting columns takes up slow noise, which would be taken for none otherwise.

    Source: Patterson and Thompson (1971), Recovery of inter-block information when block sizes are unequal, for the
    likelihood; Foreman-Mackey et al. (2017), arXiv:1703.09710, equation 20, for the oscillator.
    """
    smallest = float(np.diff(valley.steps).min())
    kinds = [
        Fading(steps * smallest, swing, smooth)
        for smooth in (False, True)
        for swing in c.SWINGS
        for steps in c.FADING_STEPS
    ]
    here, variances = np.array([restricted_likelihood(valley.middle, kind) for kind in kinds]).T
    logs = here if later is None else here + [restricted_likelihood(later.middle, kind)[0] for kind in kinds]
    weights = np.exp(logs - logs.max())
    # Kinds are drawn as likely as the curve makes them: one alone would be too certain of its own fading.
    counts, draws = generator.multinomial(number, weights / weights.sum()), []
    for kind, variance, count in zip(kinds, variances, counts, strict=True):
        if count:
            factor = np.sqrt(variance) * np.linalg.cholesky(kind.correlations(valley.steps))
            draws.append(generator.standard_normal((count, len(factor))) @ factor.T)
    return np.asarray(generator.permutation(np.concatenate(draws)))  # so that they pair with any others


def restricted_likelihood(stretch: Stretch, kind: Fading) -> tuple[float, float]:
    """Return the restricted log likelihood of a kind of noise beside the columns of a stretch, and its variance."""
    factor = np.linalg.cholesky(kind.correlations(stretch.steps))
    rows = np.column_stack([np.linalg.qr(stretch.columns)[0], stretch.values])
    sizes = np.abs(np.diag(np.linalg.qr(scipy.linalg.solve_triangular(factor, rows, lower=True), mode="r")))
    freedom = len(stretch.values) - stretch.columns.shape[1]
    variance = float(sizes[-1] ** 2 + np.finfo(float).tiny) / freedom
    determinants = np.log(np.diag(factor)).sum() + np.log(sizes[:-1]).sum()
    return -0.5 * freedom * float(np.log(variance)) - float(determinants), variance
