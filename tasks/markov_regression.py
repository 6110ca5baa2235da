"""The regression variant of the Markov chain: white vectors in, groups of lags that matter to different degrees."""

import dataclasses
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from stagewise.task import TEACHER, derive_seed


class Regression(NamedTuple):
    """Contexts of vectors, the most recent lag first, and the vector to predict from each."""

    inputs: Float[Tensor, "batch lag dim"]
    targets: Float[Tensor, "batch dim"]


@dataclasses.dataclass(frozen=True)
class MarkovRegression:
    """Predict a vector that depends linearly on h groups of lags, the most important group first.

        y = sum_k A*_k sum_{i in I(k)} X_i + noise,   A*_k = m^(h-k) V*_k,   <V*_j, V*_k> = delta_jk   (Frobenius)

    The X_i are independent N(0, I): E[X_i X_i^T] = I. I(1), with weight m^(h-1), holds the most recent lags.

    Args:
        dim: size d of the vectors.
        spans: number of lags in each group, the most important first.
        n_lags: number T of lags that a model sees; those in no group carry nothing.
        importance: the ratio m of successive groups' weights.
        noise: standard deviation of each entry of y around its mean.
        seed: draws the V*_k.

    Raises:
        ValueError: a parameter is out of range.

    Source: Yüksel et al. (2026), arXiv:2602.19143, the regression variant of section 2. Independent inputs take the
    place of a running chain there, so that the population loss is a tensor factorisation.

    >>> batch = MarkovRegression().sample(5, seed=0)
    >>> batch.inputs.shape, batch.targets.shape
    (torch.Size([5, 8, 6]), torch.Size([5, 6]))
    """

    dim: int = 6
    spans: tuple[int, ...] = (2, 2, 2)
    n_lags: int = 8
    importance: float = 1.7
    noise: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.spans or min(self.spans) < 1 or self.n_lags < sum(self.spans):
            raise ValueError(
                f"spans must be one positive number of lags a group, {self.n_lags} (n_lags) at most in all, "
                f"got {self.spans}"
            )
        if not self.importance > 0 or self.noise < 0:
            raise ValueError(
                f"importance must be positive and noise not negative, got {self.importance} and {self.noise}"
            )
        if len(self.spans) > self.dim**2:
            raise ValueError(
                f"there are at most dim^2 = {self.dim**2} matrices orthogonal to each other, {len(self.spans)} groups "
                "were asked for: raise dim"
            )

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

    def sample(self, n: int, seed: int) -> Regression:
        """Sample n contexts with their targets.

        Raises:
            ValueError: n is not positive.
        """
        if n < 1:
            raise ValueError(f"the number of contexts must be positive, got {n}")
        generator = torch.Generator().manual_seed(seed)
        inputs = torch.randn(n, self.n_lags, self.dim, generator=generator)
        targets = torch.einsum("loi,nli->no", self.lag_matrices(), inputs)
        return Regression(inputs, targets + self.noise * torch.randn(n, self.dim, generator=generator))
