"""The high-order Markov chain: groups of past tokens that matter to different degrees."""

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from stagewise.architecture import Architecture
from stagewise.architectures import full, minimal
from stagewise.fields import Count, Natural, check_fields
from stagewise.plan import Seeds, TrainPlan
from stagewise.presets import Preset
from stagewise.recipe import Recipe
from stagewise.schedules import linear, logarithmic
from stagewise.task import TEACHER, AbstractTask, Batch, check_number, derive_seed

_LOG_LARGEST = 80.0
"""Logarithm of the largest logits, far below float32's largest number."""


@dataclasses.dataclass(frozen=True)
class MarkovChain(AbstractTask):
    """Sequences whose next token depends on h groups of lags, the most important group first.

        x_t ~ softmax( sum_k A*_k sum_{i in I(k)} alpha_i x_{t-i} ),   A*_k = m^(h-k) U_k / temperature

    Each U_k is a random orthogonal matrix, drawn from `seed`; a sequence starts with a prefix of `window` uniform
    tokens, of which nothing is scored. Groups are numbered by importance: I(1) carries m^(h-1). Without `reverse`,
    I(1) is also the group of the most recent tokens; with it, the farthest.

    Args:
        d_vocab: number of tokens d.
        spans: number of lags in each group, the most recent group first.
        stride: lags from the start of a group to the start of the next one; None puts the groups side by side,
            less than a span makes them overlap.
        length: tokens generated after the prefix, each of them scored (T in the paper).
        importance: the ratio m of successive groups' weights.
        temperature: 0.1 at d = 50 in the paper; keep sqrt(d) * temperature when d changes.
        reverse: whether the farthest group is the most important.
        lag_weights: alpha inside a group, the most recent lag first, normalised to sum to one; None is one each.
        features: "orthogonal", or "frobenius" for matrices that are also orthogonal to each other
            (<U_j, U_k> = 0, ||U_k|| = sqrt(d); their singular values are then no longer all one).
        n_sequences: size of the training set; None for fresh data at every step.
        seed: draws the U_k.

    Source: Yüksel et al. (2026), Incremental Learning of Sparse Attention Patterns in Transformers,
    arXiv:2602.19143, section 2. The defaults here are smaller than the paper's (d = 50, T = 20, temperature 0.1).

    >>> task = MarkovChain()
    >>> batch = task.sample(5, seed=0)
    >>> batch.tokens.shape, int(batch.scored.sum()), list(batch.relations)
    (torch.Size([5, 21]), 80, ['I(1)', 'I(2)', 'I(3)'])
    """

    d_vocab: Count = 24  # a field implements the abstract property
    spans: tuple[int, ...] = (2, 2, 2)
    stride: Count | None = None
    length: Count = 16
    importance: float = 1.7
    temperature: float = 1 / 7
    reverse: bool = False
    lag_weights: tuple[float, ...] | None = None
    features: Literal["orthogonal", "frobenius"] = "frobenius"
    n_sequences: Count | None = 20_000
    seed: Natural = 0

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.spans or min(self.spans) < 1:
            raise ValueError(f"spans must be one positive number of lags a group, got {self.spans}")
        for name in ("importance", "temperature"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        steepest = (len(self.spans) - 1) * abs(math.log(self.importance)) - math.log(self.temperature)
        if steepest > _LOG_LARGEST:
            raise ValueError(
                f"importance = {self.importance:g} among {len(self.spans)} groups, temperature = {self.temperature:g}: "
                "these logits are beyond what a float holds. Take less, or a higher temperature"
            )
        if (weights := self.lag_weights) is not None and {len(weights)} != set(self.spans):
            raise ValueError(
                f"lag_weights needs a weight for every lag of a group: {len(weights)} given, spans are {self.spans}"
            )
        if weights is not None and (min(weights) < 0 or not sum(weights) > 0):
            raise ValueError(f"lag_weights are normalised to sum to one: none negative, not all 0, got {weights}")
        if self.features == "frobenius" and len(self.spans) > self.d_vocab**2:
            raise ValueError(
                f"there are at most d_vocab^2 = {self.d_vocab**2} matrices orthogonal to each other, {len(self.spans)} "
                'groups were asked for: raise d_vocab, or take features="orthogonal"'
            )

    @classmethod
    def presets(cls) -> Mapping[str, Preset]:
        """Return "minimal", the one-layer architecture of Figure 1, and "full", one block of an ordinary transformer:
        both smaller than the paper's."""
        block = {"d_vocab": 16, "spans": (3, 3, 3), "length": 12, "importance": 1.6, "temperature": 1 / 6}
        return {
            "minimal": partial(_recipe, minimal, {}, (900, 512, 0.08, 15)),
            "full": partial(_recipe, full, block, (1000, 256, 0.004, 20)),
        }

    @property
    def groups(self) -> tuple[range, ...]:
        """The lags of I(1), I(2), ..., the most important group first; lag 1 is the query token itself."""
        h = len(self.spans)
        offsets = np.cumsum((0, *self.spans[:-1])) if self.stride is None else self.stride * np.arange(h)
        firsts = zip((1 + offsets).tolist(), self.spans, strict=True)
        recent_first = [range(first, first + span) for first, span in firsts]
        return tuple(reversed(recent_first) if self.reverse else recent_first)

    @property
    def window(self) -> int:
        """Number w of past tokens that the next one depends on."""
        return max(lags[-1] for lags in self.groups)

    @property
    def n_ctx(self) -> int:
        """Positions that a model sees: the whole sequence of w + T tokens less its last one."""
        return self.window + self.length - 1

    @property
    def contexts(self) -> tuple[int, ...]:
        """The contexts that hold groups 1, 1 to 2, ...

        >>> MarkovChain(spans=(2, 3)).contexts
        (2, 5)
        """
        return tuple(sorted(set(itertools.accumulate((lags[-1] for lags in self.groups), max))))

    def value_features(self) -> dict[str, Float[Tensor, "token_out token_in"]]:
        """Return the feature matrices by name: A*_1, A*_2, ..."""
        return {f"A*_{k}": matrix for k, matrix in enumerate(self.feature_matrices(), start=1)}

    def feature_matrices(self) -> Float[Tensor, "group token_out token_in"]:
        """Return A*_1 ... A*_h with importance and temperature: logits of the next token by past token."""
        return _feature_matrices(self).clone()

    def sample(self, n: int, seed: int) -> Batch:
        """Sample n sequences, all at once: one draw a position for the whole batch."""
        check_number(n)
        generator = torch.Generator().manual_seed(seed)
        sequence = torch.empty(n, self.window + self.length, dtype=torch.int64)
        sequence[:, : self.window] = torch.randint(self.d_vocab, (n, self.window), generator=generator)
        for t in range(self.window, sequence.shape[1]):
            context = sequence[:, t - self.window : t].flip(1)
            probs = self._group_logits(context).sum(0).softmax(-1)
            sequence[:, t] = torch.multinomial(probs, 1, generator=generator)[:, 0]
        scored = (torch.arange(self.n_ctx) >= self.window - 1).expand(n, -1)
        position = torch.arange(self.n_ctx)
        lag = position[:, None] + 1 - position
        masks = ((lag >= lags.start) & (lag < lags.stop) for lags in self.groups)
        relations = {f"I({k})": mask.expand(n, -1, -1) for k, mask in enumerate(masks, start=1)}
        return Batch(sequence[:, :-1], sequence[:, 1:], scored, relations)

    def references(self, batch: Batch) -> dict[str, Float[Tensor, "batch pos token"]]:
        """Return the uniform distribution and the truncated references A*_1, A*_1:2, ... (nats), the last complete.

        A truncated reference keeps the most important groups at the same temperature, without re-normalising. Positions
        without a full window are not scored and hold the uniform distribution.
        """
        contexts = batch.tokens.unfold(1, self.window, 1).flip(-1)
        logits = self._group_logits(contexts.flatten(0, 1)).view(-1, *contexts.shape[:2], self.d_vocab)
        uniform = torch.tensor(-float(np.log(self.d_vocab))).expand(*batch.tokens.shape, self.d_vocab)
        references = {"uniform": uniform}
        for i, truncated in enumerate(logits.cumsum(0), start=1):
            reference = uniform.clone()
            reference[:, self.window - 1 :] = truncated.log_softmax(-1)
            references["A*_1" if i == 1 else f"A*_1:{i}"] = reference
        return references

    def _group_logits(self, context: Int[Tensor, "row lag"]) -> Float[Tensor, "group row token"]:
        logits = []
        for matrix, lags in zip(_feature_matrices(self), self.groups, strict=True):
            alpha = torch.ones(len(lags))
            if self.lag_weights is not None:
                alpha = torch.tensor(self.lag_weights)
                alpha = alpha / alpha.sum()
            tokens = context[:, lags.start - 1 : lags.stop - 1]
            logits.append(torch.einsum("i,nid->nd", alpha, matrix.T[tokens]))
        return torch.stack(logits)


@lru_cache(maxsize=32)
def _feature_matrices(task: MarkovChain) -> Float[Tensor, "group token_out token_in"]:
    h, d = len(task.spans), task.d_vocab
    gaussian = np.random.default_rng(derive_seed(task.seed, TEACHER)).standard_normal((h, d, d))
    left, _, right = np.linalg.svd(gaussian)
    matrices = left @ right
    if task.features == "frobenius":
        # QR of the flattened matrices is Gram-Schmidt; its sign is put back so that <Q_k, U_k> > 0.
        q, r = np.linalg.qr(matrices.reshape(h, d * d).T)
        matrices = (q * np.sign(np.diag(r))).T.reshape(h, d, d) * np.sqrt(d)
    weights = task.importance ** np.arange(h - 1, -1, -1) / task.temperature
    return torch.from_numpy(weights[:, None, None] * matrices).float()


def _recipe(
    build: Callable[..., Architecture],
    size: Mapping[str, Any],
    plan: tuple[int, int, float, int],
    seed: int,
    n_heads: int | None,
    n_layers: int | None,
    **fields: Any,
) -> Recipe:
    task = MarkovChain(**{"seed": seed, **size, **fields})
    heads, layers = 3 if n_heads is None else n_heads, 1 if n_layers is None else n_layers
    architecture = build(task.d_vocab, task.n_ctx, n_heads=heads, n_layers=layers)
    steps, batch_size, rate, every = plan
    save, seeds = linear(every, steps) | logarithmic(6, every), Seeds(seed, seed, seed)
    return Recipe(task, architecture, TrainPlan(steps, batch_size, learning_rate=rate, save=save, seeds=seeds))
