"""Settings of the smooth process and the noise on a run's checkpoints: the inverse of each one's covariance."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from stagewise.statistics._effects._settings import EffectSettings

NEGLIGIBLE = 1e-9
"""Eigenvalue of a smooth process below which it is left out: at the largest ratio a thousandth of the noise."""


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
    """All settings: each the inverse of a noise, less what its smooth process, offset and known columns explain.

    That is N - Z'Z: N is one of the `inverses` of the covariances of `noises`, [noise, step, step], that `of` the
    setting; Z is what is `explained`, [setting, rank, step]. `surprise` is half of the log determinant, less the log
    prior; `freedom` the degrees that are left. Where errors are given, the scale of the covariance is known, and
    `scaled` is false; else noise is AR(1), and its inverse has three diagonals.
    """

    settings: tuple[Setting, ...]
    noises: np.ndarray
    inverses: np.ndarray
    of: np.ndarray
    explained: np.ndarray
    surprise: np.ndarray
    freedom: int
    scaled: bool
    _kept: dict[tuple[str, int], np.ndarray] = dataclasses.field(default_factory=dict, repr=False, compare=False)

    def inverse(self, setting: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return values times the inverse of the covariance of each one's setting: [fit, value, step]."""
        return np.stack([each @ self._inverse(one) for one, each in zip(setting.tolist(), values, strict=True)])

    def products(self, setting: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return the products of values with one another, each fit's under its setting: [fit, value, value]."""
        return np.asarray(self.inverse(setting, values) @ values.transpose(0, 2, 1))

    def all_products(self, values: np.ndarray) -> np.ndarray:
        """Return the products of values with one another under all settings: [setting, fit, value, value]."""
        along = np.tensordot(self.explained, values, (2, 2)).transpose(0, 2, 3, 1)
        return np.asarray(self._under_noises(values)[self.of] - along @ along.transpose(0, 1, 3, 2))

    def among(self, columns: np.ndarray, setting: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Return products of each fit's chosen ones of columns, which are always the same: [fit, chosen, chosen]."""
        white = np.stack([self._white(columns, one)[some] for one, some in zip(setting.tolist(), chosen, strict=True)])
        along = columns[chosen] @ self.explained[setting].transpose(0, 2, 1)
        return np.asarray(white @ white.transpose(0, 2, 1) - along @ along.transpose(0, 2, 1))  # half a product's time

    def lengths(self, columns: np.ndarray, setting: int) -> np.ndarray:
        """Return the squared lengths under a setting of columns, which are always the same."""
        white, rows = self._white(columns, setting), self.explained[setting]
        return self._once("lengths", setting, lambda: (white**2).sum(1) - ((columns @ rows.T) ** 2).sum(1))

    def _white(self, columns: np.ndarray, setting: int) -> np.ndarray:
        """Return columns whose products are those of the given ones under the inverse of a setting's noise."""
        noise = int(self.of[setting])
        return self._once("white", noise, lambda: columns @ np.linalg.cholesky(self.inverses[noise]))

    def noise_in(self, residual: np.ndarray, setting: int) -> np.ndarray:
        """Return the noise that is expected in what the effects of a curve leave; the rest is the smooth process."""
        return np.asarray(residual @ self._inverse(setting) @ self.noises[self.of[setting]])

    def _inverse(self, setting: int) -> np.ndarray:
        explained, noise = self.explained[setting], self.inverses[self.of[setting]]
        return self._once("inverse", setting, lambda: noise - explained.T @ explained)

    def _once(self, what: str, of: int, made: Callable[[], np.ndarray]) -> np.ndarray:
        """Return what is kept of a setting or a noise, made when it is first asked for."""
        if (what, of) not in self._kept:
            self._kept[what, of] = made()
        return self._kept[what, of]

    def _under_noises(self, values: np.ndarray) -> np.ndarray:
        """Return the products of values with one another under all noises: [noise, fit, value, value]."""
        if not self.scaled:
            return np.asarray(values @ self.inverses[:, None] @ values.transpose(0, 2, 1))
        own, beside = (np.diagonal(self.inverses, off, 1, 2) for off in (0, 1))
        both, next_to = values[:, :, None] * values[:, None], values[:, :, None, 1:] * values[:, None, :, :-1]
        crossed = np.tensordot(beside, next_to, (1, 3))
        return np.asarray(np.tensordot(own, both, (1, 3)) + crossed + np.swapaxes(crossed, 2, 3))


@functools.lru_cache(maxsize=8)
def covariances_of(
    steps: tuple[float, ...], known: tuple[float, ...], errors: tuple[float, ...] | None,
    relative: tuple[float, ...] | None, s: EffectSettings,
) -> Covariances:  # fmt: skip
    """Return the settings on checkpoints.

    Errors may be given, or deviations of the noise up to a factor, as of means over unequally many values.
    """
    t = np.asarray(steps)
    shared = np.stack([np.ones(len(t)), *((t >= step).astype(float) for step in known)])
    kinds = _noises(s, given=errors is not None)
    scale, noises = _noises_on(t, [one for one, _ in kinds], errors, relative, s)
    inverses, halves = np.linalg.inv(noises), np.linalg.slogdet(noises)[1] / 2
    processes = [(in_steps, length, scale * root) for in_steps, length, root in _processes(t, s)]
    settings, of, surprise, explained = list[Setting](), list[int](), list[float](), list[np.ndarray]()
    for place, root, several, prior in _by_process(kinds, processes, s):
        ratios = [one.ratio for one in several]
        for one, (rows, half) in zip(several, _explained(inverses[place], root, ratios, shared), strict=True):
            settings.append(one)
            of.append(place)
            explained.append(rows)
            surprise.append(halves[place] + half - prior)
    padded = np.zeros((len(settings), max(map(len, explained)), len(t)))
    for rows, each in zip(padded, explained, strict=True):
        rows[: len(each)] = each
    freedom, free = len(t) - len(shared), errors is None
    return Covariances(tuple(settings), noises, inverses, np.array(of), padded, np.array(surprise), freedom, free)


def _by_process(
    kinds: list[tuple[Setting, float]], processes: list[tuple[bool, float, np.ndarray]], s: EffectSettings
) -> Iterator[tuple[int, np.ndarray, list[Setting], float]]:
    """Yield the place of a noise, the rows of a process beside it, or none, its settings, and the log prior of each."""
    for i, (noise, prior) in enumerate(kinds):
        # Noise that is nearly a random walk leaves nothing to a smooth process.
        # Correlated noise whose level changes has none for speed, nor have bursts.
        alone = noise.correlation >= s.nearly or (noise.growth and noise.correlation) or noise.bursts
        yield i, processes[0][2][:0], [noise], prior if alone else prior + np.log(1 - s.smooth)
        for in_steps, length, root in [] if alone else processes:
            several = [noise._replace(ratio=ratio, in_steps=in_steps, length=length) for ratio in s.ratios]
            yield i, root, several, prior + np.log(s.smooth / (len(processes) * len(several)))


def _noises_on(
    t: np.ndarray, kinds: list[Setting], errors: tuple[float, ...] | None, relative: tuple[float, ...] | None,
    s: EffectSettings,
) -> tuple[float, np.ndarray]:  # fmt: skip
    """Return the deviation of a noise of variance one, and the covariances of noises: [noise, step, step]."""
    way = np.cumsum(_distances(t, relative, s.brief))
    faded = np.array([one.correlation for one in kinds])[:, None, None] ** np.abs(way[:, None] - way)
    if errors is None:
        level = np.array([_level(one, len(t), s) for one in kinds])
        level = level if relative is None else level * np.asarray(relative)
        return 1.0, faded * level[:, None] * level[..., None]
    variances = np.square(errors)
    further = variances.mean() * np.array([one.noise for one in kinds])
    return float(np.sqrt(variances.mean())), np.diag(variances) + further[:, None, None] * faded


def _distances(t: np.ndarray, relative: tuple[float, ...] | None, few: int) -> np.ndarray:
    """Return how far each checkpoint is from the one before, for noise: one, and a part of it where a stretch is finer
    than what lies before it. Log-spaced and linear schedules have gaps that do not shrink, averages have their own, and
    a lone gap or two, where checkpoints are missing, are no schedule.
    """
    gaps = np.diff(t, prepend=t[0] - (t[1] - t[0]))
    usual = np.array([np.sort(gaps[: k + 1])[-min(few, k + 1)] for k in range(len(gaps))])
    return np.ones(len(t)) if relative else np.minimum(gaps / usual, 1)


def _processes(t: np.ndarray, s: EffectSettings) -> list[tuple[bool, float, np.ndarray]]:
    """Return whether each process has its length in steps, that length, and rows whose products are its kernel."""
    # Nothing is resolved below the first gap: logarithms count from it.
    log, result = np.log(t - t[0] + t[1] - t[0]), list[tuple[bool, float, np.ndarray]]()
    for in_steps, length in itertools.product((False, True), s.lengths):
        place = t if in_steps else log
        x = np.abs(place[:, None] - place) / (place[-1] - place[0]) / length
        far = np.sqrt(5) * x
        kernel = (1 + far + far**2 / 3) * np.exp(-far) if s.bends else np.exp(-0.5 * x**2)
        sizes, vectors = np.linalg.eigh(kernel)
        kept = sizes > NEGLIGIBLE
        result.append((in_steps, length, (vectors[:, kept] * np.sqrt(sizes[kept])).T))
    return result


def _explained(
    noise: np.ndarray, root: np.ndarray, ratios: Sequence[float], shared: np.ndarray
) -> Iterator[tuple[np.ndarray, float]]:
    """Yield for each ratio of a process beside the inverse of a noise Z of it and of shared rows, whose variance is
    infinite, and half the log determinant that they add to the restricted likelihood.
    """
    whole, free = root @ noise, shared @ noise
    of_one, vectors = np.linalg.eigh(whole @ root.T)
    for ratio in ratios:
        sizes = ratio * np.maximum(of_one, 0)
        process = (vectors * np.sqrt(ratio / (1 + sizes))).T @ whole
        rest = free - shared @ process.T @ process
        factor = np.linalg.cholesky(rest @ shared.T)
        rows = np.concatenate([process, np.linalg.solve(factor, rest)])
        yield rows, float(0.5 * np.log1p(sizes).sum() + np.log(np.diagonal(factor)).sum())


def _noises(s: EffectSettings, *, given: bool) -> list[tuple[Setting, float]]:
    """Return the noises with their log priors; beside given errors there may be none, or some of several sizes."""
    kinds = [(one, np.log(prior)) for one, prior in s.correlations]
    if given:
        some = np.log(s.smooth / len(s.further))
        beside = [(Setting(one, noise=noise), prior + some) for one, prior in kinds for noise in s.further]
        return [(Setting(noise=0.0), np.log(1 - s.smooth)), *beside]
    levels = [(s.louder * way, np.log((1 - s.bursting) / (4 if way else 2))) for way in (-1, 0, 1)]
    places = np.linspace(0, 1 - s.burst, 2 * round(1 / s.burst) - 1).tolist()
    pairs = [(one, other) for one, other in itertools.combinations(places, 2) if other - one > s.burst]
    either: list[tuple[tuple[float, ...], int]] = [((one,), len(places)) for one in places] + [
        (pair, len(pairs)) for pair in pairs
    ]
    steady = [(Setting(one, growth), prior + of) for one, prior in kinds for growth, of in levels]
    return steady + [(Setting(bursts=each), np.log(s.bursting / 2 / number)) for each, number in either]


def _level(setting: Setting, number: int, s: EffectSettings) -> np.ndarray:
    """Return the relative level of the noise at each checkpoint."""
    part = np.linspace(0, 1, number)
    during = np.any([(part >= start) & (part <= start + s.burst) for start in (*setting.bursts, 2)], axis=0)
    return np.asarray(np.exp(setting.growth * (part - 0.5)) * np.where(during, np.exp(s.louder), 1))
