"""Fits of curves: which shapes their effects may have, how large, and what the data say of them."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from stagewise.statistics._effects._atoms import Atoms
from stagewise.statistics._effects._covariances import Covariances
from stagewise.statistics._effects._settings import EffectSettings

SHAPES = 112
"""Shapes that are fitted together: those of all that explain most."""

OTHERS = 2
"""Gradual shapes or excursions beside the changes."""


class Problem(NamedTuple):
    """Curves in ranges, [curve, step], with the shapes and the settings of their checkpoints.

    `reach` is the prior variance of what is no change: outliers lie beyond the range of the rest, [curve]. The steps
    are `u`, log(1 + step); `centre` was taken off each curve, and `unit` is what it was divided by then.
    """

    curves: np.ndarray
    reach: np.ndarray
    atoms: Atoms
    covariances: Covariances
    settings: EffectSettings
    u: np.ndarray
    centre: np.ndarray
    unit: np.ndarray

    def asked(self, either: tuple[float, float]) -> float:
        """Return the first of two numbers, or the second where errors are given."""
        return either[not self.covariances.scaled]

    def noise(self, squares: np.ndarray) -> np.ndarray:
        """Return the variance of the noise by the squares that remain; 1 where given errors are all that there is."""
        of = self.covariances
        return np.maximum(squares / of.freedom, self.settings.resolution**2) if of.scaled else np.ones(squares.shape)


@dataclasses.dataclass(frozen=True)
class Fits:
    """Fits of curves under settings, each with effects over some atoms: first the changes, then what is none.

    `shape` is the posterior of the atoms, `size` the mean of each one's size: [fit, effect, atom]. Sizes of changes
    have a prior `variance`, or are `alike`: close to their mean. `evidence` is the bound on the log likelihood, `gains`
    are the log Bayes factors of the effects given the others: [fit, effect].
    """

    curve: np.ndarray
    setting: np.ndarray
    atoms: np.ndarray
    shape: np.ndarray
    size: np.ndarray
    variance: np.ndarray
    noise: np.ndarray
    evidence: np.ndarray
    gains: np.ndarray
    alike: np.ndarray
    changes: int

    def __len__(self) -> int:
        return len(self.curve)

    def take(self, chosen: Any, **changed: Any) -> "Fits":
        """Return some of them, changed."""
        arrays = {name: getattr(self, name)[chosen] for name in ARRAYS}
        return dataclasses.replace(self, **{**arrays, **changed})

    def without(self, effect: np.ndarray) -> "Fits":
        """Return them without one change each: [fit]."""
        kept = np.argsort(np.arange(self.shape.shape[1]) == effect[:, None], axis=1, kind="stable")[:, :-1]
        rows, changes = np.arange(len(self))[:, None], self.changes - 1
        return dataclasses.replace(
            self, shape=self.shape[rows, kept], size=self.size[rows, kept], gains=self.gains[rows, kept],
            changes=changes, alike=self.alike & (changes > 1),
        )  # fmt: skip


ARRAYS = [field.name for field in dataclasses.fields(Fits) if field.name != "changes"]


def joined(parts: list[Fits]) -> Fits:
    """Return fits of equally many changes as one."""
    arrays: dict[str, Any] = {name: np.concatenate([getattr(one, name) for one in parts]) for name in ARRAYS}
    return dataclasses.replace(parts[0], **arrays)


PART = 32
"""Fits that are worked on at once: what is held of them stays in the processor's cache."""


def by_parts(work: Callable[[Fits], Fits], fits: Fits) -> Fits:
    """Return what is made of fits, a few at a time."""
    return joined([fits.take(slice(0)), *(work(fits.take(slice(i, i + PART))) for i in range(0, len(fits), PART))])


def blank(problem: Problem, curve: np.ndarray, setting: np.ndarray, changes: int) -> Fits:
    """Return fits without anything in their effects."""
    number, atoms = len(curve), min(SHAPES, len(problem.atoms.kind))
    zeros, shape = np.zeros(number), np.zeros((number, changes + OTHERS, atoms))
    variance = zeros + problem.settings.size**2
    return Fits(
        curve, setting, np.zeros((number, atoms), int), shape, shape.copy(), variance, zeros + 1, zeros,
        np.zeros(shape.shape[:2]), zeros > 0, changes,
    )  # fmt: skip
