"""Settings of the smooth process and the noise on a run's checkpoints, each with what whitens a curve under it."""

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dtrtri

from stagewise.statistics._effects._settings import EffectSettings

JITTER = 1e-9
"""Added to the diagonal, in variances of the noise, where rounding makes a covariance indefinite."""


class Setting(NamedTuple):
    """Correlation of the noise, log of its growth, and the smooth process: its variance over that of the noise, whether
    its length is in steps (else in their logarithm), and that length; `noise` is that beside given errors, in theirs;
    `bursts` of noise begin at those parts of the run.
    """

    correlation: float = 0.0
    growth: float = 0.0
    ratio: float = 0.0
    in_steps: bool = False
    length: float = 0.0
    noise: float = 1.0
    bursts: tuple[float, ...] = ()


@dataclasses.dataclass(frozen=True)
class Covariances:
    """All settings, with W such that W y is white and free of offset and known columns: [setting, step, step].

    `surprise` is half of the log determinant, less the log prior; `freedom` the degrees that are left. Where errors are
    given, the scale of the covariance is known, and `scaled` is false. `noises` makes the covariance of a setting's
    noise alone: [step, step].
    """

    settings: tuple[Setting, ...]
    whitening: np.ndarray
    surprise: np.ndarray
    freedom: int
    scaled: bool
    noises: Callable[[Setting], np.ndarray] = dataclasses.field(repr=False, compare=False)
    _norms: dict[int, np.ndarray] = dataclasses.field(default_factory=dict, repr=False, compare=False)

    def norms(self, columns: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Return the squared lengths of whitened columns under some settings: [chosen, column]."""
        for setting in set(chosen.tolist()) - self._norms.keys():
            self._norms[setting] = np.square(self.whitening[setting] @ columns).sum(0)
        return np.array([self._norms[setting] for setting in chosen.tolist()])

    def noise_in(self, residual: np.ndarray, setting: int) -> np.ndarray:
        """Return the noise that is expected in what the effects of a curve leave; the rest is the smooth process."""
        whitening = self.whitening[setting]
        return np.asarray(self.noises(self.settings[setting]) @ (whitening.T @ (whitening @ residual)))


@functools.lru_cache(maxsize=8)
def covariances_of(
    steps: tuple[float, ...], known: tuple[float, ...], errors: tuple[float, ...] | None,
    relative: tuple[float, ...] | None, s: EffectSettings,
) -> Covariances:  # fmt: skip
    """Return the settings on checkpoints; the process is Gaussian, its kernel a squared exponential.

    Errors may be given, or deviations of the noise up to a factor, as of means over unequally many values.

    That kernel follows waves and bends, and no step: rows with a planted change of a tenth of the run gain 2 to 5 nats
    over Matern's 5/2, nulls none.
    """
    t = np.asarray(steps)
    # Nothing is resolved below the first gap: logarithms count from it.
    log = np.log(t - t[0] + t[1] - t[0])
    spans = (np.abs(each[:, None] - each) / (each[-1] - each[0]) for each in (log, t))
    processes = [
        (i == 1, length, np.exp(-0.5 * (d / length) ** 2)) for i, d in enumerate(spans) for length in s.lengths
    ]
    shared = np.stack([np.ones(len(t)), *((t >= step).astype(float) for step in known)], axis=1)
    scale = 1.0 if errors is None else float(np.sqrt(np.mean(np.square(errors))))
    given = np.zeros((len(t), len(t))) if errors is None else np.diag(np.square(np.asarray(errors) / scale))
    noise_of = functools.partial(
        _covariance, given=given, level=np.ones(len(t)) if relative is None else np.asarray(relative), s=s
    )
    settings, covariances, prior = list[Setting](), list[np.ndarray](), list[float]()
    for noise, of_noise in _noises(s, given=errors is not None):
        base = noise_of(noise)
        # Noise that is nearly a random walk leaves nothing to a smooth process.
        # Correlated noise whose level changes has none for speed, nor have bursts.
        alone = noise.correlation >= s.nearly or (noise.growth and noise.correlation) or noise.bursts
        several = [] if alone else [*itertools.product(processes, s.ratios)]
        settings.append(noise)
        covariances.append(base)
        prior.append(of_noise + (np.log(1 - s.smooth) if several else 0.0))
        for (in_steps, length, kernel), ratio in several:
            settings.append(noise._replace(ratio=ratio, in_steps=in_steps, length=length))
            covariances.append(base + ratio * kernel)
            prior.append(of_noise + np.log(s.smooth / len(several)))
    whitening, half = _whitened(np.array(covariances), shared)
    freedom = len(t) - shared.shape[1]
    surprise = half + np.log(scale) * freedom - np.array(prior)

    def noises(setting: Setting) -> np.ndarray:
        return scale**2 * noise_of(setting)

    return Covariances(tuple(settings), whitening / scale, surprise, freedom, errors is None, noises)


def _noises(s: EffectSettings, *, given: bool) -> list[tuple[Setting, float]]:
    """Return the noises with their log priors; beside given errors there may be none, or some of several sizes."""
    kinds = [(one, np.log(prior)) for one, prior in s.correlations]
    if given:
        some = np.log((1 - s.exact) / len(s.further))
        beside = [(Setting(one, noise=noise), prior + some) for one, prior in kinds for noise in s.further]
        return [(Setting(noise=0.0), np.log(s.exact)), *beside]
    bends = len(s.growths) - 1
    levels = [(one, np.log((1 - s.bursting) / (2 if one == 0 else 2 * bends))) for one in s.growths]
    places = np.linspace(0, 1 - s.burst, 2 * round(1 / s.burst) - 1).tolist()
    pairs = [(one, other) for one, other in itertools.combinations(places, 2) if other - one > s.burst]
    either: list[tuple[tuple[float, ...], int]] = [((one,), len(places)) for one in places] + [
        (pair, len(pairs)) for pair in pairs
    ]
    steady = [(Setting(one, growth), prior + of) for one, prior in kinds for growth, of in levels]
    return steady + [(Setting(bursts=each), np.log(s.bursting / 2 / number)) for each, number in either]


def _covariance(noise: Setting, given: np.ndarray, level: np.ndarray, s: EffectSettings) -> np.ndarray:
    """Return the covariance of the noise of a setting beside that of given errors, of a level at each checkpoint."""
    place, level = np.arange(len(given)), level * _level(noise, len(given), s)
    return np.asarray(
        given + noise.noise * noise.correlation ** np.abs(place[:, None] - place) * level[:, None] * level
    )


def _level(setting: Setting, number: int, s: EffectSettings) -> np.ndarray:
    """Return the relative level of the noise at each checkpoint."""
    part = np.linspace(0, 1, number)
    during = np.any([(part >= start) & (part <= start + s.burst) for start in (*setting.bursts, 2)], axis=0)
    return np.asarray(np.exp(setting.growth * (part - 0.5)) * np.where(during, s.raised, 1))


def _whitened(covariances: np.ndarray, shared: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what whitens, free of the shared columns, and half the log determinants of the restricted likelihood."""
    factors = np.linalg.cholesky(covariances + JITTER * np.eye(len(shared)))
    inverse = np.stack([dtrtri(each, lower=1)[0] for each in factors])
    columns, rest = np.linalg.qr(inverse @ shared)
    whole = np.concatenate([np.diagonal(each, axis1=1, axis2=2) for each in (factors, rest)], axis=1)
    return inverse - columns @ (columns.transpose(0, 2, 1) @ inverse), np.log(np.abs(whole)).sum(1)
