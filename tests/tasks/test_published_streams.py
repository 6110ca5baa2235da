"""Published streams: a step's batch is the same in whatever order steps are asked for, classes and tokens fit."""

from collections.abc import Iterator

import torch
from torch import Tensor

from stagewise.tasks._published_streams import published_batches, published_weights, replayed

SUPPORT = torch.tensor([[0, 1, 2], [0, 1, 3]])
WEIGHTS = torch.tensor([0.5, 0.25, 0.25])


def batches(size: int) -> Iterator[tuple[Tensor, Tensor]]:
    return published_batches(SUPPORT, WEIGHTS, d_vocab=4, length=5, seed=3, size=size)


def test_a_step_is_the_same_whenever_it_is_asked_for() -> None:
    draw, stream = replayed(batches), batches(6)
    expected = [next(stream) for _ in range(4)]
    for step in (0, 3, 1, 2):
        assert all(torch.equal(one, other) for one, other in zip(draw(step, 6), expected[step], strict=True))


def test_contexts_hold_the_tokens_of_their_class_alone() -> None:
    contexts, classes = next(batches(20))
    for context, label in zip(contexts.tolist(), classes.tolist(), strict=True):
        assert set(context) <= set(SUPPORT[label].tolist())
    assert set(classes.tolist()) == {0, 1}


def test_weights_are_uniform_within_one_over_the_root_of_their_number() -> None:
    y, z = published_weights(400, seed=0)
    for weights in (y, z):
        assert weights.abs().max() <= 1 / 20
        # The standard deviation of a uniform distribution in +-b is b / sqrt(3); 160,000 draws know it to 0.2 %.
        assert abs(weights.std().item() * 3**0.5 * 20 - 1) < 0.01
