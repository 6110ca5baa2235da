"""What whitens noise: AR(1) noise at some level in a step or two, noise beside given errors by its factor."""

import dataclasses

import numpy as np
from scipy.linalg.lapack import dtrtri


@dataclasses.dataclass(frozen=True)
class Correlated:
    """AR(1) noises: the white value at a step is so much of the value `here` less so much of that `before`.

    All are [noise, step], `correlations` those with the step before, `level` the deviations; in all noises a value's
    steps are its last axis.
    """

    correlations: np.ndarray
    level: np.ndarray
    here: np.ndarray
    before: np.ndarray

    @classmethod
    def of(cls, correlations: np.ndarray, level: np.ndarray) -> "Correlated":
        """Return noises of some correlations with the step before, of the first none, and deviations: [noise, step]."""
        scale = np.sqrt(1 - correlations**2)
        here, before = 1 / (scale * level), np.zeros_like(level)
        before[:, 1:] = correlations[:, 1:] / (scale[:, 1:] * level[:, :-1])
        return cls(correlations, level, here, before)

    @property
    def log_deviations(self) -> np.ndarray:
        """Half the log determinant of each covariance: [noise]."""
        return np.asarray(-np.log(self.here).sum(1))

    def white(self, noise: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return values under a noise each: [fit, value, step]."""
        result = values * self.here[noise, None]
        result[..., 1:] -= values[..., :-1] * self.before[noise, None, 1:]
        return np.asarray(result)

    def back(self, noise: np.ndarray, white: np.ndarray) -> np.ndarray:
        """Return the transpose of what whitens, of white values: both make the inverse of the covariance."""
        result = white * self.here[noise, None]
        result[..., :-1] -= white[..., 1:] * self.before[noise, None, 1:]
        return np.asarray(result)

    def covariance(self, noise: int) -> np.ndarray:
        """Return the covariance of a noise: [step, step]."""
        level = self.level[noise]
        return np.asarray(_correlation(self.correlations[noise]) * np.outer(level, level))

    def products(self, values: np.ndarray) -> np.ndarray:
        """Return the products of white values with one another under all noises: [noise, fit, value, value]."""
        both = values[:, :, None] * values[:, None]
        next_to = values[:, :, None, 1:] * values[:, None, :, :-1]
        own, beside = self.here**2, self.here * self.before
        own[:, :-1] += self.before[:, 1:] ** 2
        crossed = np.tensordot(beside[:, 1:], next_to, (1, 3))
        return np.asarray(np.tensordot(own, both, (1, 3)) - crossed - np.swapaxes(crossed, 2, 3))


@dataclasses.dataclass(frozen=True)
class Given:
    """Noises beside given errors: covariances and the inverses of their Cholesky factors, [noise, step, step]."""

    covariances: np.ndarray
    inverse: np.ndarray

    @classmethod
    def of(cls, errors: np.ndarray, further: np.ndarray, correlations: np.ndarray) -> "Given":
        """Return noises of given variances [step] and further ones [noise] of some correlations [noise, step]."""
        kinds = [each * _correlation(one) for each, one in zip(further, correlations, strict=True)]
        covariances = np.diag(errors) + np.array(kinds)
        return cls(covariances, np.stack([dtrtri(each, lower=1)[0] for each in np.linalg.cholesky(covariances)]))

    @property
    def log_deviations(self) -> np.ndarray:
        """Half the log determinant of each covariance: [noise]."""
        return np.asarray(-np.log(np.diagonal(self.inverse, axis1=1, axis2=2)).sum(1))

    def white(self, noise: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return values under a noise each: [fit, value, step]."""
        return np.asarray(np.matmul(values, self.inverse[noise].transpose(0, 2, 1)))

    def back(self, noise: np.ndarray, white: np.ndarray) -> np.ndarray:
        """Return the transpose of what whitens, of white values: both make the inverse of the covariance."""
        return np.asarray(np.matmul(white, self.inverse[noise]))

    def covariance(self, noise: int) -> np.ndarray:
        """Return the covariance of a noise: [step, step]."""
        return np.asarray(self.covariances[noise])

    def products(self, values: np.ndarray) -> np.ndarray:
        """Return the products of white values with one another under all noises: [noise, fit, value, value]."""
        white = np.matmul(values, self.inverse.transpose(0, 2, 1)[:, None])
        return np.asarray(np.matmul(white, white.transpose(0, 1, 3, 2)))


def _correlation(with_before: np.ndarray) -> np.ndarray:
    """Return the correlation of each two steps, the product of those between them: [step, step]."""
    place = np.cumsum(np.log(np.maximum(with_before, np.finfo(float).tiny)))
    return np.asarray(np.exp(-np.abs(place[:, None] - place)))
