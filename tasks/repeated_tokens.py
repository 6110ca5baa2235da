"""Random tokens, and then the same again: the batch that shows what heads do when nobody wrote down a task."""

import dataclasses
import math

import torch
from jaxtyping import Float
from torch import Tensor

from stagewise.task import AbstractTask, Batch


@dataclasses.dataclass(frozen=True)
class RepeatedTokens(AbstractTask):
    """`length` different random tokens, twice. Only the second half can be predicted, and only it is scored.

    From a query at position t of the second half, the relations are

    - `previous token`: t - 1,
    - `duplicate token`: t - length, the same token in the first half,
    - `induction`: t - length + 1, what followed it there,
    - `first token`: 0,  `self`: t.

    The references are the uniform law, the uniform law over the tokens of the sequence, and the copy.

    Args:
        d_vocab: number of tokens of the model.
        length: of a half, at most d_vocab.
        bos: a token to put first, where the models were trained with one; "first token" is then that one.
        n_sequences: size of the training set; None for fresh data at every step.

    Raises:
        ValueError: a parameter is out of range.

    Source: the repeated random sequences of Olsson et al. (2022), In-context Learning and Induction Heads,
    arXiv:2209.11895, section "Head activation evaluators"; `induction` is their prefix matching score.

    >>> batch = RepeatedTokens(d_vocab=50, length=4).sample(1, seed=0)
    >>> bool((batch.tokens[0, :3] == batch.tokens[0, 4:]).all()), batch.scored[0].int().tolist()
    (True, [0, 0, 0, 0, 1, 1, 1])
    >>> batch.relations["induction"][0, 4].int().tolist()
    [0, 1, 0, 0, 0, 0, 0]
    """

    d_vocab: int = 64  # a field in the place of the abstract property
    length: int = 24
    bos: int | None = None
    n_sequences: int | None = None

    def __post_init__(self) -> None:
        if not 2 <= self.length <= self.d_vocab:
            raise ValueError(
                f"length must be between 2 and d_vocab = {self.d_vocab}, so that no token comes twice in a half; "
                f"got {self.length}"
            )
        if self.bos is not None and not 0 <= self.bos < self.d_vocab:
            raise ValueError(f"bos must be one of the {self.d_vocab} tokens, got {self.bos}")

    @property
    def n_ctx(self) -> int:
        """Positions that a model sees: the whole sequence less its last one."""
        return 2 * self.length - 1 + self._shift

    @property
    def _shift(self) -> int:
        return int(self.bos is not None)

    def sample(self, n: int, seed: int) -> Batch:
        """Sample n sequences with the relations of their second half."""
        if n < 1:
            raise ValueError(f"the number of sequences must be positive, got {n}")
        generator = torch.Generator().manual_seed(seed)
        keys = torch.rand(n, self.d_vocab, generator=generator)
        if self.bos is not None:
            keys[:, self.bos] = -1.0
        half = keys.topk(self.length, dim=1).indices
        start = torch.full((n, self._shift), self.bos or 0)
        sequence = torch.cat([start, half, half], 1)
        scored = (torch.arange(self.n_ctx) >= self.length + self._shift).expand(n, -1)
        return Batch(sequence[:, :-1], sequence[:, 1:], scored, self._relations(n))

    def references(self, batch: Batch) -> dict[str, Float[Tensor, "batch pos token"]]:
        """Return the uniform law, the uniform law over the sequence's tokens, and the copy (nats); where it is scored.

        Elsewhere they hold the uniform law.
        """
        n, width = batch.tokens.shape
        uniform = torch.full((n, width, self.d_vocab), -math.log(self.d_vocab))
        seen = torch.full((n, self.d_vocab), -torch.inf)
        seen.scatter_(1, batch.tokens[:, self._shift : self._shift + self.length], -math.log(self.length))
        copy = torch.full_like(uniform, -torch.inf).scatter_(2, batch.targets[..., None], 0.0)
        scored = batch.scored[..., None]
        return {
            "uniform": uniform,
            "tokens of the sequence": torch.where(scored, seen[:, None], uniform),
            "copy": torch.where(scored, copy, uniform),
        }

    def _relations(self, n: int) -> dict[str, Tensor]:
        query, key = torch.arange(self.n_ctx)[:, None], torch.arange(self.n_ctx)[None]
        second = query >= self.length + self._shift
        masks = {
            "previous token": key == query - 1,
            "duplicate token": second & (key == query - self.length),
            "induction": second & (key == query - self.length + 1),
            "first token": (key == 0) & (query >= 0),
            "self": key == query,
        }
        return {name: mask.expand(n, -1, -1) for name, mask in masks.items()}
