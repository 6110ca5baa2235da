"""The random streams of the published runs of `SequenceClasses`: initial weights first, then classes and tokens.

Source: the configurations and logs released with Tian et al. (2023), Scan and Snap, arXiv:2305.16380.
"""

import random
from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

_Contexts = tuple[Int[Tensor, "batch pos"], Int[Tensor, " batch"]]
"""Contexts, and the class of each."""


def published_weights(d_vocab: int, seed: int) -> tuple[Float[Tensor, "token token"], Float[Tensor, "token token"]]:
    """Return the initial Y and Z of a published run, uniform in +-1/sqrt(d_vocab); Syn-Small draws and drops them."""
    decoder, attention = _draw_weights(d_vocab, _generator(seed))
    return decoder.T.contiguous(), attention


def published_batches(
    support: Int[Tensor, "class slot"], weights: Float[Tensor, " slot"], d_vocab: int, length: int, seed: int, size: int
) -> Iterator[_Contexts]:
    """Yield (contexts, classes): two streams, the classes from Python's generator, the tokens from torch's."""
    chooser, generator = random.Random(seed), _generator(seed)
    _draw_weights(d_vocab, generator)
    while True:
        drawn = []
        for _ in range(size):
            label = chooser.choice(range(len(support)))
            drawn.append((label, torch.multinomial(weights, length, replacement=True, generator=generator)))
        classes = torch.tensor([label for label, _ in drawn])
        yield support[classes[:, None], torch.stack([slots for _, slots in drawn])], classes


def replayed(start: Callable[[int], Iterator[_Contexts]]) -> Callable[[int, int], _Contexts]:
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


def _generator(seed: int) -> Generator:
    return Generator().manual_seed(seed + 2)


def _draw_weights(d_vocab: int, generator: Generator) -> tuple[Tensor, Tensor]:
    bound = d_vocab**-0.5
    decoder = torch.empty(d_vocab, d_vocab).uniform_(-bound, bound, generator=generator)
    return decoder, torch.empty(d_vocab, d_vocab).uniform_(-bound, bound, generator=generator)
