"""The regression variant of the Markov chain: white vectors in, groups of lags that matter to different degrees."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from einops import einsum
from jaxtyping import Bool, Float
from torch import Tensor

from stagewise.architectures import reshaped
from stagewise.fields import Count, Natural, NotNegative, check_fields
from stagewise.papers.position_heads import position_heads
from stagewise.plan import Seeds, TrainPlan
from stagewise.presets import Preset
from stagewise.recipe import Recipe
from stagewise.schedules import linear, logarithmic
from stagewise.task import TEACHER, AbstractTask, Batch, check_number, derive_seed


@dataclasses.dataclass(frozen=True)
class MarkovRegression(AbstractTask):
    """Predict, at the last position, a vector that depends linearly on h groups of lags, the most important one first.

        y = sum_k A*_k sum_{i in I(k)} X_i + noise,   A*_k = m^(h-k) V*_k,   <V*_j, V*_k> = delta_jk   (Frobenius)

    The X_i are independent N(0, I): E[X_i X_i^T] = I. I(1), with weight m^(h-1), holds the most recent lags; lag 1 is
    the last position itself.

    Args:
        dim: size d of the vectors.
        spans: number of lags in each group, the most important first.
        n_lags: number T of lags that a model sees; those in no group do not affect y.
        importance: the ratio m of successive groups' weights.
        noise: standard deviation of each entry of y around its mean.
        n_sequences: size of the training set; None for fresh data at every step.
        seed: draws the V*_k.

    Source: Yüksel et al. (2026), arXiv:2602.19143, the regression variant of section 2. Independent inputs replace
    a running chain there, so that the population loss is a tensor factorisation.

    >>> batch = MarkovRegression(n_lags=7).sample(5, seed=0)
    >>> batch.tokens.shape, batch.relations["I(1)"][0, -1].int().tolist()
    (torch.Size([5, 7, 6]), [0, 0, 0, 0, 0, 1, 1])
    """

    dim: Count = 6
    spans: tuple[int, ...] = (2, 2, 2)
    n_lags: int = 8
    importance: float = 1.7
    noise: NotNegative = 0.0
    n_sequences: Count | None = None
    seed: Natural = 0

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.spans or min(self.spans) < 1 or self.n_lags < sum(self.spans):
            raise ValueError(
                f"spans must be one positive number of lags a group, {self.n_lags} (n_lags) at most in all, "
                f"got {self.spans}"
            )
        if not self.importance > 0:
            raise ValueError(f"importance must be positive, got {self.importance}")
        if len(self.spans) > self.dim**2:
            raise ValueError(
                f"there are at most dim^2 = {self.dim**2} matrices orthogonal to each other, {len(self.spans)} groups "
                "were asked for: raise dim"
            )

    @classmethod
    def presets(cls) -> Mapping[str, Preset]:
        """Return "small": three heads that attend by position alone, trained by plain SGD."""
        return {"small": _small}

    @property
    def d_vocab(self) -> int:
        """Number of features of an input vector: d."""
        return self.dim

    @property
    def n_ctx(self) -> int:
        """Number of positions: one a lag."""
        return self.n_lags

    @property
    def nested(self) -> tuple[str, ...]:
        """A*_1, A*_1:2, ...: the most important groups, the last with all of them."""
        return tuple("A*_1" if k == 1 else f"A*_1:{k}" for k in range(1, 1 + len(self.spans)))

    @property
    def strengths(self) -> tuple[float, ...]:
        """The Frobenius norms of A*_1, A*_2, ...

        >>> MarkovRegression(importance=2.0).strengths
        (4.0, 2.0, 1.0)
        """
        h = len(self.spans)
        return tuple(float(self.importance ** (h - k)) for k in range(1, h + 1))

    @property
    def groups(self) -> tuple[range, ...]:
        """The lags of I(1), I(2), ..., counted from 1, the most important group first."""
        ends = np.cumsum(self.spans).tolist()
        return tuple(range(1 + end - span, 1 + end) for span, end in zip(self.spans, ends, strict=True))

    def value_features(self) -> dict[str, Float[Tensor, "dim_out dim_in"]]:
        """Return the feature matrices by name: A*_1, A*_2, ..."""
        return {f"A*_{k}": matrix for k, matrix in enumerate(self.feature_matrices(), start=1)}

    def feature_matrices(self) -> Float[Tensor, "group dim_out dim_in"]:
        """Return A*_1 ... A*_h: QR of flattened Gaussian matrices, times their strengths."""
        h, d = len(self.spans), self.dim
        gaussian = np.random.default_rng(derive_seed(self.seed, TEACHER)).standard_normal((d * d, h))
        q, _ = np.linalg.qr(gaussian)
        return torch.from_numpy(np.asarray(self.strengths)[:, None, None] * q.T.reshape(h, d, d)).float()

    def lag_matrices(self) -> Float[Tensor, "lag dim_out dim_in"]:
        """Return the map from each lag to y: A*_k for those of group k, zero for those of none."""
        maps = torch.zeros(self.n_lags, self.dim, self.dim)
        for lags, matrix in zip(self.groups, self.feature_matrices(), strict=True):
            maps[lags.start - 1 : lags.stop - 1] = matrix
        return maps

    def sample(self, n: int, seed: int) -> Batch:
        """Sample n sequences; the target is at the last position, the only one that is scored."""
        check_number(n)
        generator = torch.Generator().manual_seed(seed)
        inputs = torch.randn(n, self.n_lags, self.dim, generator=generator)
        targets = torch.zeros_like(inputs)
        targets[:, -1] = self._answers(inputs, self.lag_matrices())
        targets[:, -1] += self.noise * torch.randn(n, self.dim, generator=generator)
        scored = (torch.arange(self.n_lags) == self.n_lags - 1).expand(n, -1)
        relations = {f"I({k})": self._mask(lags).expand(n, -1, -1) for k, lags in enumerate(self.groups, start=1)}
        return Batch(inputs.flip(1), targets, scored, relations)

    def references(self, batch: Batch) -> dict[str, Float[Tensor, "batch pos output"]]:
        """Return the outputs of answering "zero", and of A*_1, A*_1:2, ...; the last is the complete solution.

        Positions that are not scored hold zeros.
        """
        matrices, inputs = self.lag_matrices(), batch.tokens.flip(1)
        references = {"zero": torch.zeros_like(batch.targets)}
        for name, lags in zip(self.nested, self.groups, strict=True):
            answers = torch.zeros_like(batch.targets)
            answers[:, -1] = self._answers(inputs[:, : lags.stop - 1], matrices[: lags.stop - 1])
            references[name] = answers
        return references

    def _answers(
        self, inputs: Float[Tensor, "batch lag dim"], matrices: Float[Tensor, "lag dim_out dim"]
    ) -> Float[Tensor, "batch dim_out"]:
        return einsum(matrices, inputs, "lag output input, batch lag input -> batch output")

    def _mask(self, lags: range) -> Bool[Tensor, "query key"]:
        """Return the keys at these lags, of the last query; the other positions are not scored."""
        mask = torch.zeros(self.n_lags, self.n_lags, dtype=torch.bool)
        mask[-1, [self.n_lags - lag for lag in lags]] = True
        return mask


def _small(seed: int, n_heads: int | None, n_layers: int | None, **fields: Any) -> Recipe:
    task = MarkovRegression(**{"seed": seed, **fields})
    heads = 3 if n_heads is None else n_heads
    # Of this draw all three groups are learned in 4000 steps, of others in up to twice as many. It holds a value for
    # each head and group first, as a state of the theory does, and counts positions from the most recent lag on.
    values = heads * len(task.spans)
    draws = 1e-3 * np.random.default_rng(2).standard_normal(values + heads * task.n_lags)
    logits = tuple(tuple(row) for row in draws[values:].reshape(heads, -1)[:, ::-1].tolist())
    plan = TrainPlan(
        steps=6000,
        batch_size=256,
        optimiser="sgd",
        learning_rate=0.05,
        weight_decay=0.0,
        clip=None,
        save=linear(100, 6000) | logarithmic(8, 100),
        seeds=Seeds(seed, seed, seed),
    )
    return Recipe(task, reshaped(position_heads(task.dim, task.n_lags, heads, logits), None, n_layers), plan)
