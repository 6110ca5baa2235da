"""Windows: tokens and targets are the source's own."""

import dataclasses
import math

import pytest
import torch

from stagewise.papers.tasks import MarkovRegression
from stagewise.task import TRAINING, Batch, derive_seed
from stagewise.tasks import MarkovChain, Windows

SOURCE = MarkovChain(d_vocab=6, spans=(2, 1), length=5, n_sequences=20)
CONTEXTS = pytest.mark.parametrize("context", [1, 2, 3])


def pairs_by_hand(batch: Batch, context: int) -> list[tuple[list[int], int]]:
    """Every scored position's last tokens and target, one by one."""
    return [
        (batch.tokens[row, query - context + 1 : query + 1].tolist(), int(batch.targets[row, query]))
        for row in range(len(batch))
        for query in range(batch.tokens.shape[1])
        if batch.scored[row, query]
    ]


@CONTEXTS
def test_windows_and_targets_are_those_of_the_source(context: int) -> None:
    batch = Windows(SOURCE, context).sample(20, seed=4)
    expected = pairs_by_hand(SOURCE.sample(4, seed=4), context)
    assert list(zip(batch.tokens.tolist(), batch.targets[:, -1].tolist(), strict=True)) == expected


@CONTEXTS
def test_only_the_last_position_is_scored(context: int) -> None:
    batch = Windows(SOURCE, context).sample(7, seed=0)
    assert batch.scored.tolist() == [[False] * (context - 1) + [True]] * 7
    assert batch.tokens.shape == (7, context)


def test_the_training_set_holds_the_windows_of_the_sources_training_set() -> None:
    task = Windows(SOURCE, 2)
    assert task.n_sequences == 20 * 5
    whole = task.stream(3)(0, 1000)
    expected = pairs_by_hand(SOURCE.sample(20, derive_seed(3, TRAINING)), 2)
    assert sorted(zip(whole.tokens.tolist(), whole.targets[:, -1].tolist(), strict=True)) == sorted(expected)


def test_windows_of_fresh_data_are_fresh() -> None:
    task = Windows(dataclasses.replace(SOURCE, n_sequences=None), 3)
    assert task.n_sequences is None
    assert not torch.equal(task.stream(0)(0, 30).tokens, task.stream(0)(1, 30).tokens)


def test_sizes_are_those_that_a_model_needs() -> None:
    assert (Windows(SOURCE, 2).n_ctx, Windows(SOURCE, 2).d_vocab) == (2, 6)


def test_the_only_reference_is_the_uniform_distribution() -> None:
    batch = Windows(SOURCE, 2).probe_batch(3, seed=0)
    assert list(batch.references) == ["uniform"]
    assert torch.equal(batch.references["uniform"], torch.full((3, 2, 6), -math.log(6)))


def test_the_window_that_begins_with_its_sequence_scores_what_has_fewer_tokens_before_it() -> None:
    batch = Windows(SOURCE, 5).sample(9, seed=4)
    source = SOURCE.sample(3, seed=4)
    assert source.scored[0].tolist() == [False, False, True, True, True, True, True]
    assert batch.scored.tolist() == [[False, False, True, True, True], *[[False] * 4 + [True]] * 2] * 3
    assert torch.equal(batch.tokens[0], source.tokens[0, :5])
    assert batch.targets[0].tolist() == [0, 0, *source.targets[0, 2:5].tolist()]
    assert batch.targets[2, -1] == source.targets[0, 6]


def test_a_context_longer_than_a_sequence_is_refused() -> None:
    with pytest.raises(ValueError, match=r"needs between 1 and 7 tokens .* got 8"):
        Windows(SOURCE, 8).sample(5, seed=0)


@pytest.mark.parametrize("context", [0, -2])
def test_a_context_without_tokens_is_refused(context: int) -> None:
    with pytest.raises(ValueError, match=f"context: expected a whole number of at least 1, got {context}"):
        Windows(SOURCE, context)


def test_a_regression_has_no_windows() -> None:
    with pytest.raises(ValueError, match="windows are of tokens, and MarkovRegression is a regression"):
        Windows(MarkovRegression(), 2).sample(3, seed=0)
