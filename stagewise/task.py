"""A task: sampled sequences, their scored predictions, relations that a head may attend to, and reference solutions.

The glossary of axes and columns is that of the package: `help(stagewise)`.
"""

import abc
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from stagewise.batch import Batch as Batch

TRAINING, EVALUATION, TEACHER = range(3)
"""The purposes of `derive_seed`: training and evaluation data never share a stream, even under one seed."""


def derive_seed(seed: int, *path: int) -> int:
    """Derive an independent seed for a purpose, so that the data of step s are a function of (seed, s) alone.

    >>> derive_seed(0, TRAINING, 7) == derive_seed(0, TRAINING, 7) != derive_seed(0, EVALUATION, 7)
    True
    """
    return int(np.random.SeedSequence(seed, spawn_key=path).generate_state(1, np.uint64)[0]) >> 1


def check_number(n: int) -> None:
    """Raise ValueError where no sequences are to be sampled."""
    if n < 1:
        raise ValueError(f"the number of sequences must be positive, got {n}")


def chosen(requested: Iterable[str] | None, available: Mapping[str, Tensor], kind: str) -> list[str]:
    """Return the requested names, each once, or all names.

    Raises:
        ValueError: a name that the batch does not have, or no names at all.
    """
    if not available:
        raise ValueError(f"the batch has no {kind}s; a task's `probe_batch` has those that the task defines")
    names = list(available) if requested is None else list(dict.fromkeys(requested))
    if unknown := [name for name in names if name not in available]:
        known = ", ".join(map(repr, available))
        raise ValueError(f"the batch has no {kind} {', '.join(map(repr, unknown))}; it has {known}")
    return names


class AbstractTask(abc.ABC):
    """A task whose solution is known. A leaf is a frozen dataclass of its parameters; all methods are pure.

    A parameter out of its range is a ValueError, which names it, its range and what came.

    `n_sequences` is the size of the training set; a leaf that has no such field trains on fresh data at every step.
    """

    n_sequences: int | None = None

    @classmethod
    def presets(cls) -> Mapping[str, Callable[..., Any]]:
        """Return recipes of this task by name, the default first: see `presets.Preset`; a task without any has the one
        for any task."""
        return {}

    @property
    def nested(self) -> tuple[str, ...] | None:
        """The references that are partial solutions, in the order in which a model goes through them, the complete one
        last; None for all but the uniform distribution, in the order of `references`; an empty tuple for none."""
        return None

    @property
    def contexts(self) -> tuple[int, ...] | None:
        """How many of the last tokens each partial solution reads, ascending: the contexts to restrict a model to; None
        for powers of two."""
        return None

    def value_features(self) -> Mapping[str, Float[Tensor, "token_out token_in"]]:
        """Return, by name, the matrices that a head's value map (token in, logits out) may learn; none by
        default."""
        return {}

    def as_text(self, tokens: Sequence[int]) -> list[str]:
        """Return how each token is written where a sequence is shown: its number, or its text."""
        return [str(token) for token in tokens]

    @property
    def available(self) -> int | None:
        """How many different sequences it has to measure on; None for as many as are asked for."""
        return None

    @property
    @abc.abstractmethod
    def d_vocab(self) -> int:
        """Number of tokens; of a task of input vectors, their number of features."""

    @property
    @abc.abstractmethod
    def n_ctx(self) -> int:
        """Number of positions of a sequence that a model sees."""

    @abc.abstractmethod
    def sample(self, n: int, seed: int) -> Batch:
        """Sample n sequences with their targets, scored positions and relations."""

    def references(self, batch: Batch) -> dict[str, Float[Tensor, "batch pos token"]]:
        """Return named solutions as log-probabilities (nats), the complete one last (see `nested`); none by default."""
        return {}

    def probe_batch(self, n: int, seed: int) -> Batch:
        """Sample n evaluation sequences, with references: the one fixed batch that every checkpoint is probed on."""
        batch = self.sample(n, derive_seed(seed, EVALUATION))
        return dataclasses.replace(batch, references=self.references(batch), nested=self.nested)

    def repeated_batch(self, seed: int) -> Batch | None:
        """Sample random tokens and some of them again, which a run is measured on besides; None by default."""
        return None

    def stream(self, seed: int) -> Callable[[int, int], Batch]:
        """Return the training data: a function of (step, batch size), the same for every call with the same step.

        A finite data set smaller than the batch is given whole.
        """
        if self.n_sequences is None:
            return lambda step, size: self.sample(size, derive_seed(seed, TRAINING, step))
        data = self.sample(self.n_sequences, derive_seed(seed, TRAINING))
        total = self.n_sequences

        def draw(step: int, size: int) -> Batch:
            generator = np.random.default_rng(derive_seed(seed, TRAINING, step))
            rows = torch.from_numpy(generator.choice(total, min(size, total), replace=False))
            return dataclasses.replace(data, relations={})[rows]

        return draw
