"""The last c tokens only: what a restricted-context model is trained on."""

import dataclasses
import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from stagewise.task import AbstractTask, Batch


def windows(batch: Batch, context: int) -> Int[Tensor, "row pos"]:
    """Cut the `context` tokens that end at each scored position, in reading order.

    Raises:
        ValueError: a scored position has fewer than `context` tokens up to it.
    """
    sequence, position = batch.scored.nonzero(as_tuple=True)
    if context < 1 or int(position.min()) < context - 1:
        raise ValueError(
            f"a window needs between 1 and {int(position.min()) + 1} tokens (what the first scored position has), "
            f"got {context}"
        )
    offsets = torch.arange(1 - context, 1)
    return batch.tokens[sequence[:, None], position[:, None] + offsets]


@dataclasses.dataclass(frozen=True)
class Windows(AbstractTask):
    """Windows of the last `context` tokens of another task, scored at their last position, positions from 0.

    A model trained on it knows no more than the last c tokens: the restricted-context baseline that a full model is
    compared with. Its data set holds the windows of the same sequences that the other task's data set holds.

    Raises:
        ValueError: `context` is less than 1, or (when sampling) longer than the context of a scored position.

    Source: Yüksel et al. (2026), arXiv:2602.19143, Figure 3 (right) and Figure 5.

    >>> from stagewise.tasks import MarkovChain
    >>> Windows(MarkovChain(), context=4).sample(3, seed=0).tokens.shape
    torch.Size([3, 4])
    """

    task: AbstractTask
    context: int

    def __post_init__(self) -> None:
        if self.context < 1:
            raise ValueError(f"context must be at least one token, got {self.context}")

    @property
    def d_vocab(self) -> int:
        """Number of tokens."""
        return self.task.d_vocab

    @property
    def n_ctx(self) -> int:
        """Number of positions: the context."""
        return self.context

    @property
    def n_sequences(self) -> int | None:  # type: ignore[override]
        """Number of windows in the training set."""
        n = self.task.n_sequences
        return None if n is None else n * self._windows_a_sequence

    @property
    def _windows_a_sequence(self) -> int:
        return int(self.task.sample(1, seed=0).scored.sum())

    def sample(self, n: int, seed: int) -> Batch:
        """Sample n windows, from as few sequences as hold them."""
        source = self.task.sample(math.ceil(n / self._windows_a_sequence), seed)
        tokens = windows(source, self.context)[:n]
        targets = torch.zeros_like(tokens)
        targets[:, -1] = source.targets[source.scored][:n]
        scored = (torch.arange(self.context) == self.context - 1).expand(n, -1)
        return Batch(tokens, targets, scored)

    def references(self, batch: Batch) -> dict[str, Float[Tensor, "batch pos token"]]:
        """Return the uniform law: what a longer context would say is not known from a window."""
        return {"uniform": torch.full((*batch.tokens.shape, self.d_vocab), -math.log(self.d_vocab))}
