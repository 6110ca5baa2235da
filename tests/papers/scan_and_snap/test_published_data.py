"""Published streams and exact batches: every step again, frequencies as the law says."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from stagewise.papers.scan_and_snap.published_data import (
    _published_batches,
    _replayed,
    population_batch,
    published_stream,
    published_weights,
    vocabulary_batch,
)
from stagewise.papers.tasks import syn_medium, syn_small

FLOAT64 = 1e-12


def test_the_population_batch_holds_every_token_as_often_as_the_law_says() -> None:
    task = syn_medium(3)
    batch = population_batch(task)
    counts = torch.stack([tokens.bincount(minlength=task.d_vocab) for tokens in batch.tokens[:, :-1]])
    torch.testing.assert_close(counts.double() / 155, task.distribution(), atol=FLOAT64, rtol=0)
    assert torch.equal(batch.targets[:, -1], task.labels)


def test_the_vocabulary_batch_holds_every_token_once() -> None:
    task = syn_medium(3)
    batch = vocabulary_batch(task)
    assert batch.tokens[:, :-1].tolist() == [list(range(task.d_vocab))] * 3
    assert batch.tokens[:, -1].tolist() == task.queries.unique().tolist()
    own = batch.relations["distinct"][1, -1].nonzero().flatten()
    assert torch.equal(own, task.distinct_tokens[2:4].flatten())


def test_frequencies_that_are_not_whole_are_refused() -> None:
    with pytest.raises(ValueError, match="not a multiple of 1/100"):
        population_batch(syn_small(), 100)


def test_the_published_data_of_a_step_depend_on_seed_and_step_alone() -> None:
    draw = published_stream(syn_small(), 5)
    first = [draw(step, 6).tokens for step in (0, 1, 2)]
    again = [published_stream(syn_small(), 5)(step, 6).tokens for step in (2, 0)]
    assert torch.equal(again[0], first[2])
    assert torch.equal(draw(0, 6).tokens, first[0])
    assert not torch.equal(first[0], first[1])


def test_the_published_weights_come_before_the_published_data() -> None:
    task = syn_medium(1)
    torch.manual_seed(7 + 2)
    decoder, attention = (torch.nn.Linear(33, 33, bias=False).weight for _ in range(2))
    y, z = published_weights(task.d_vocab, 7)
    assert torch.equal(y, decoder.T)
    assert torch.equal(z, attention)
    slots = torch.multinomial(task.distribution()[0, task.support[0]].float(), 127, replacement=True)
    tokens = published_stream(task, 7)(0, 1).tokens[0, :-1]
    assert tokens.tolist() in task.support[:, slots].tolist()


SUPPORT = torch.tensor([[0, 1, 2], [0, 1, 3]])
WEIGHTS = torch.tensor([0.5, 0.25, 0.25])


def batches(size: int) -> Iterator[tuple[Tensor, Tensor]]:
    return _published_batches(SUPPORT, WEIGHTS, d_vocab=4, length=5, seed=3, size=size)


def test_a_step_is_the_same_whenever_it_is_asked_for() -> None:
    draw, stream = _replayed(batches), batches(6)
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
