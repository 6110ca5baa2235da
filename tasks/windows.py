"""The last c tokens only: what a restricted-context model is trained on."""

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from stagewise.architectures import resized
from stagewise.fields import Count, check_fields
from stagewise.recipe import Recipe
from stagewise.task import AbstractTask, Batch

_WINDOWS_A_SEQUENCE = 3
"""Windows in a batch, for each sequence in a batch of the full model."""


class _WindowPositions(NamedTuple):
    """The positions of windows: the sequence of each, and its position in each window."""

    sequence: Int[Tensor, " row"]
    position: Int[Tensor, "row pos"]


def window_positions(batch: Batch, context: int) -> _WindowPositions:
    """Return the positions of the windows of `context` tokens that end at a scored position, sequence by sequence.

    Scored positions that have fewer tokens up to them share the window that begins with their sequence.
    """
    length = batch.tokens.shape[1]
    if not 1 <= context <= length:
        raise ValueError(f"a window needs between 1 and {length} tokens (what a sequence has), got {context}")
    ends = batch.scored.clone()
    ends[:, context - 1] |= batch.scored[:, :context].any(1)
    ends[:, : context - 1] = False
    sequence, end = ends.nonzero(as_tuple=True)
    return _WindowPositions(sequence, end[:, None] + torch.arange(1 - context, 1))


def window_scored(batch: Batch, positions: _WindowPositions) -> Bool[Tensor, "row pos"]:
    """Return the scored positions of each window: its last one, and all in a window that begins with its sequence."""
    inner = torch.arange(positions.position.shape[1])
    counts = (inner == inner[-1]) | (positions.position[:, :1] == 0)
    return batch.scored[positions.sequence[:, None], positions.position] & counts


@dataclasses.dataclass(frozen=True)
class Windows(AbstractTask):
    """Windows of the last `context` tokens of another task, scored at their last position, positions from 0.

    Where the other task scores positions with fewer tokens before them, the window that begins with the sequence scores
    those too. A model trained on it reads only the last c tokens: the restricted-context baseline that a full
    model is compared with. Its data set holds the windows of the same sequences that the other task's data set holds.

    Source: Yüksel et al. (2026), arXiv:2602.19143, Figure 3 (right) and Figure 5.

    >>> from stagewise.tasks import MarkovChain
    >>> Windows(MarkovChain(), context=4).sample(3, seed=0).tokens.shape
    torch.Size([3, 4])
    """

    task: AbstractTask
    context: Count

    def __post_init__(self) -> None:
        check_fields(self)

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
        return len(window_positions(self.task.sample(1, seed=0), self.context).sequence)

    def sample(self, n: int, seed: int) -> Batch:
        """Sample n windows, from as few sequences as hold them."""
        source = self.task.sample(math.ceil(n / self._windows_a_sequence), seed)
        if source.is_regression:
            raise ValueError(
                f"windows are of tokens, and {type(self.task).__name__} is a regression: take a task of tokens"
            )
        every = window_positions(source, self.context)
        positions = _WindowPositions(every.sequence[:n], every.position[:n])
        index = (positions.sequence[:, None], positions.position)
        scored = window_scored(source, positions)
        return Batch(source.tokens[index], torch.where(scored, source.targets[index], 0), scored)

    def as_text(self, tokens: Sequence[int]) -> list[str]:
        """Return how the other task writes tokens."""
        return self.task.as_text(tokens)

    def references(self, batch: Batch) -> dict[str, Float[Tensor, "batch pos token"]]:
        """Return the uniform distribution: a window does not determine the predictions of a longer context."""
        return {"uniform": torch.full((*batch.tokens.shape, self.d_vocab), -math.log(self.d_vocab))}


def restricted_contexts(task: AbstractTask) -> tuple[int, ...]:
    """Return the contexts to train baselines for: those that the task names, or the powers of two below its length."""
    if task.contexts is not None:
        return task.contexts
    return tuple(2**power for power in range(task.n_ctx.bit_length()) if 2**power < task.n_ctx)


def restricted_recipe(recipe: Recipe, context: int) -> Recipe:
    """Return the recipe of a model of the same kind that sees the last `context` tokens only, positions from 0.

    It trains as long as the full model and at its rate: a baseline must have passed all its own stages.

    Source: Yüksel et al. (2026), arXiv:2602.19143, the restricted-context transformers of Figures 3 and 5.
    """
    task = Windows(recipe.task, context)
    size = _WINDOWS_A_SEQUENCE * recipe.plan.batch_size
    plan = dataclasses.replace(recipe.plan, batch_size=size, save=(0, recipe.plan.steps))
    return Recipe(task, resized(recipe.architecture, context), plan)
