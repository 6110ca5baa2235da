"""Data of Scan and Snap's synthetic experiments: the published random streams, and batches without sampling error."""

import dataclasses
import random
from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from stagewise.papers.tasks import SequenceClasses
from stagewise.task import Batch

_Contexts = tuple[Int[Tensor, "batch pos"], Int[Tensor, " batch"]]
"""Contexts, and the class of each."""


def _weights(task: SequenceClasses) -> Float[Tensor, " slot"]:
    return task.distribution()[0, task.support[0]]


def population_batch(task: SequenceClasses, length: int = 155) -> Batch:
    """Return one sequence a class in which every token is as frequent as P says: no sampling error.

    Where no position is encoded, the attention of the last query summed by token is the paper's c_n.

    Args:
        task: of the sequences.
        length: contextual tokens; 155 holds the frequencies of the presets exactly.

    Raises:
        ValueError: the frequencies are not whole at this length.
    """
    expected = length * _weights(task)
    counts = expected.round().long()
    if (counts - expected).abs().max() > 1e-9 * length:
        raise ValueError(
            f"P(token | class) is not a multiple of 1/{length}: choose a length that makes every count whole "
            f"(155 for the presets), counts would be {[round(count, 3) for count in expected.tolist()]}"
        )
    context = torch.stack([tokens.repeat_interleave(counts) for tokens in task.support])
    return task.batch(context, torch.arange(task.n_classes))


def vocabulary_batch(task: SequenceClasses) -> Batch:
    """Return one sequence a query token that holds every token once, for attention without frequencies.

    `distinct` are the distinct tokens of all the query's classes; the target is the first one's label.
    """
    first = torch.arange(0, task.n_classes, task.labels_per_query)
    batch = task.batch(torch.arange(task.d_vocab).expand(task.n_queries, -1), first)
    owner = torch.full((task.d_vocab,), -1)
    owner[task.distinct_tokens] = torch.arange(task.n_classes)[:, None] // task.labels_per_query
    distinct = owner[batch.tokens] == torch.arange(task.n_queries)[:, None]
    causal = torch.ones(2 * batch.tokens.shape[1:], dtype=torch.bool).tril(-1)
    return dataclasses.replace(batch, relations={**batch.relations, "distinct": causal & distinct[:, None]})


def published_stream(task: SequenceClasses, seed: int) -> Callable[[int, int], Batch]:
    """Return the training data of a published run: a function of (step, batch size), whose steps depend on all before.

    Asking for the steps in their order costs each once; an earlier step replays from the first.
    """
    weights = _weights(task).float()
    draw = _replayed(lambda size: _published_batches(task.support, weights, task.d_vocab, task.length, seed, size))
    return lambda step, size: task.batch(*draw(step, size))


def published_weights(d_vocab: int, seed: int) -> tuple[Float[Tensor, "token token"], Float[Tensor, "token token"]]:
    """Return the initial Y and Z of a published run, uniform in +-1/sqrt(d_vocab); Syn-Small draws and drops them.

    Source: the configurations and logs released with Tian et al. (2023). They come first in the stream of a run.
    """
    decoder, attention = _draw_weights(d_vocab, _published_generator(seed))
    return decoder.T.contiguous(), attention


def _published_batches(
    support: Int[Tensor, "class slot"], weights: Float[Tensor, " slot"], d_vocab: int, length: int, seed: int, size: int
) -> Iterator[_Contexts]:
    """Yield (contexts, classes): two streams, the classes from Python's generator, the tokens from torch's."""
    chooser, generator = random.Random(seed), _published_generator(seed)
    _draw_weights(d_vocab, generator)
    while True:
        drawn = []
        for _ in range(size):
            label = chooser.choice(range(len(support)))
            drawn.append((label, torch.multinomial(weights, length, replacement=True, generator=generator)))
        classes = torch.tensor([label for label, _ in drawn])
        yield support[classes[:, None], torch.stack([slots for _, slots in drawn])], classes


def _replayed(start: Callable[[int], Iterator[_Contexts]]) -> Callable[[int, int], _Contexts]:
    """Return the batch of (step, size) from an iterator over all; an earlier step, or another size, starts over."""
    position, of_size = 0, 0
    batches: Iterator[_Contexts] = iter(())

    def draw(step: int, size: int) -> _Contexts:
        nonlocal batches, position, of_size
        if step < position or size != of_size:
            batches, position, of_size = start(size), 0, size
        for _ in range(step - position):
            next(batches)
        position = step + 1
        return next(batches)

    return draw


def _published_generator(seed: int) -> Generator:
    return Generator().manual_seed(seed + 2)


def _draw_weights(d_vocab: int, generator: Generator) -> tuple[Tensor, Tensor]:
    bound = d_vocab**-0.5
    decoder = torch.empty(d_vocab, d_vocab).uniform_(-bound, bound, generator=generator)
    return decoder, torch.empty(d_vocab, d_vocab).uniform_(-bound, bound, generator=generator)
