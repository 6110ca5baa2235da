"""Sparse linear regression: of T vectors one matters, and its image under a fixed matrix is to be predicted."""

import dataclasses
import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from stagewise.architecture import Architecture
from stagewise.architectures import reshaped
from stagewise.fields import Count, Natural, Share, check_fields
from stagewise.papers.linear_init import LinearInit
from stagewise.plan import Seeds, TrainPlan
from stagewise.presets import Preset
from stagewise.recipe import Recipe
from stagewise.schedules import linear
from stagewise.task import TEACHER, AbstractTask, Batch, check_number, derive_seed


@dataclasses.dataclass(frozen=True)
class SparseRegression(AbstractTask):
    """Predict y = W* x_r from x_1 ... x_T ~ N(0, I / d), at the last position; r is the relevant one.

    W* has entries N(0, 1 / d), drawn from `seed`. With in-context repetition B positions hold the relevant vector;
    with cross-sample repetition it is the first basis vector in a share p of the sequences. The probe batch has p = 0,
    and B = 1 unless the positions are fixed (a model trained on fixed positions with B > 1 has not learned B = 1).

    Args:
        n_positions: T.
        d: dimension of the vectors.
        n_copies: B, of the relevant vector in a sequence.
        p: share of the sequences whose relevant vector is the special one.
        positions: of the relevant vector: "fixed", the last B, or "random" in every sequence.
        marked: whether a further feature is 1 on the relevant vectors and 0 elsewhere.
        n_sequences: size of the training set; None for fresh data at every step.
        seed: draws W*.

    Source: Zucchet et al. (2025), The emergence of sparse attention, arXiv:2505.17863, sections 2 and 3.1.

    >>> batch = SparseRegression(n_positions=5, d=3).sample(2, seed=0)
    >>> batch.tokens.shape, batch.targets.shape, batch.relations["relevant"][0, -1].tolist()
    (torch.Size([2, 5, 3]), torch.Size([2, 5, 3]), [False, False, False, False, True])
    """

    n_positions: int = 64
    d: Count = 16
    n_copies: int = 1
    p: Share = 0.0
    positions: Literal["fixed", "random"] = "fixed"
    marked: bool = False
    n_sequences: Count | None = None
    seed: Natural = 0

    def __post_init__(self) -> None:
        check_fields(self)
        if not 1 <= self.n_copies < self.n_positions:
            raise ValueError(
                "n_copies must be between 1 and n_positions - 1, got "
                f"n_copies={self.n_copies}, n_positions={self.n_positions}"
            )
        if self.positions == "random" and not self.marked:
            raise ValueError("random positions cannot be detected without a mark: set marked=True")

    @classmethod
    def presets(cls) -> Mapping[str, Preset]:
        """Return "small": 16 vectors of size 8 at random positions, the paper's transformer of two layers."""
        return {"small": _small}

    @property
    def d_vocab(self) -> int:
        """Number of features of an input vector: d, and the mark."""
        return self.d + self.marked

    @property
    def n_ctx(self) -> int:
        """Number of positions: T."""
        return self.n_positions

    def teacher(self) -> Float[Tensor, "output feature"]:
        """Return W*."""
        return _teacher(self.d, self.seed).clone()

    def value_features(self) -> dict[str, Float[Tensor, "output feature"]]:
        """Return W*, which maps the relevant vector to the target and the mark to nothing."""
        return {"W*": torch.nn.functional.pad(_teacher(self.d, self.seed), (0, int(self.marked)))}

    def sample(self, n: int, seed: int) -> Batch:
        """Sample n sequences; the target is at the last position, the only one that is scored."""
        check_number(n)
        generator = torch.Generator().manual_seed(seed)
        inputs = torch.randn(n, self.n_positions, self.d, generator=generator) / self.d**0.5
        relevant = self._relevant(n, generator)
        vector = inputs[:, -1].clone()
        special = torch.rand(n, generator=generator) < self.p
        vector[special] = torch.eye(self.d)[0]
        if self.positions == "random":
            inputs[:, -1] = torch.randn(n, self.d, generator=generator) / self.d**0.5
        inputs = torch.where(relevant[..., None], vector[:, None], inputs)
        targets = torch.zeros(n, self.n_positions, self.d)
        targets[:, -1] = vector @ _teacher(self.d, self.seed).T
        if self.marked:
            inputs = torch.cat([inputs, relevant[..., None].float()], -1)
        scored = (torch.arange(self.n_positions) == self.n_positions - 1).expand(n, -1)
        mask = relevant[:, None] & scored[:, :, None]
        return Batch(inputs, targets, scored, {"relevant": mask})

    @property
    def nested(self) -> tuple[str, ...]:
        """The complete solution alone: zero and the ridge predictor are no partial solutions."""
        return ("W*",)

    def references(self, batch: Batch) -> dict[str, Float[Tensor, "batch pos output"]]:
        """Return the outputs of "zero", that of the plateau, of "ridge", and of "W*", the solution.

        "ridge" is the best that uniform attention allows: the linear map of the mean vector with the least expected
        error, W* shrunk by the noise of the T - B other vectors as a ridge penalty shrinks it,

            y = B T / (B^2 + T - B) W* mean(x)

        Positions that are not scored hold zeros.
        """
        relevant = batch.relations["relevant"][:, -1]
        inputs = batch.tokens[..., : self.d]
        vectors = inputs[torch.arange(len(batch)), relevant.float().argmax(-1)]
        copies = relevant.sum(-1, keepdim=True)
        shrink = copies * self.n_positions / (copies**2 + self.n_positions - copies)
        teacher = self.teacher().to(vectors).T
        answers = {"zero": torch.zeros_like(vectors), "ridge": shrink * inputs.mean(1), "W*": vectors}
        return {name: self._at_the_end(batch, each @ teacher) for name, each in answers.items()}

    def probe_batch(self, n: int, seed: int) -> Batch:
        """Sample n evaluation sequences, without repetition (see above)."""
        copies = self.n_copies if self.positions == "fixed" else 1
        tested = dataclasses.replace(self, p=0.0, n_copies=copies)
        return super().probe_batch(n, seed) if self == tested else tested.probe_batch(n, seed)

    def _at_the_end(self, batch: Batch, answers: Float[Tensor, "batch output"]) -> Float[Tensor, "batch pos output"]:
        outputs = torch.zeros_like(batch.targets)
        outputs[:, -1] = answers
        return outputs

    def _relevant(self, n: int, generator: torch.Generator) -> Tensor:
        if self.positions == "fixed":
            return (torch.arange(self.n_positions) >= self.n_positions - self.n_copies).expand(n, -1)
        order = torch.rand(n, self.n_positions, generator=generator).argsort(-1)
        return order < self.n_copies


@lru_cache(maxsize=32)
def _teacher(d: int, seed: int) -> Tensor:
    entries = np.random.default_rng(derive_seed(seed, TEACHER)).standard_normal((d, d)) / d**0.5
    return torch.from_numpy(entries).float()


def _small(seed: int, n_heads: int | None, n_layers: int | None, **fields: Any) -> Recipe:
    size = {"n_positions": 16, "d": 8, "positions": "random", "marked": True, "seed": seed}
    task = SparseRegression(**{**size, **fields})
    config = {
        "n_heads": 4, "d_model": 256, "d_head": 64, "d_mlp": 1024, "act_fn": "gelu", "n_layers": 2,
        "normalization_type": None, "n_ctx": task.n_positions, "d_vocab": task.d_vocab, "d_vocab_out": task.d,
    }  # fmt: skip
    # 1.6 times the larger of the paper's law and that of 7 small runs made before, in hundreds.
    ratio, d = task.n_positions / task.n_copies, task.d
    law = max(0.76 * math.pow(ratio, 0.80) * math.pow(d, 1.29), 2.55 * math.pow(ratio, 0.63) * math.pow(d, 1.13))
    budget, seeds = max(400, 100 * math.ceil(1.6 * law / 100)), Seeds(seed, seed, seed)
    save = linear(max(1, budget // 50), budget)
    plan = TrainPlan(budget, 32, learning_rate=1e-4, weight_decay=0.0, clip=None, save=save, seeds=seeds)
    return Recipe(task, reshaped(Architecture(config, LinearInit()), n_heads, n_layers), plan)
