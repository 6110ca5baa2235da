"""Sequence classes: the probabilities, its recorded numbers, references, exact batches, published streams."""

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from stagewise.tasks import SequenceClasses, syn_medium, syn_small
from stagewise.tasks.sequence_classes import _published_batches, _replayed, published_weights

PRINTED = 1e-6
"""Digits to which the paper's data are known."""

FLOAT64 = 1e-12
VARIANTS = {
    "Syn-Small": syn_small(),
    "Syn-Medium": syn_medium(3),
    "one class": SequenceClasses(n_queries=1, n_common=2, n_distinct=3, length=5),
    "uneven": SequenceClasses(2, 3, n_common=1, n_distinct=2, length=9, common_weight=4.0, distinct_weights=(2.0, 1.0)),
}
every_variant = pytest.mark.parametrize("task", VARIANTS.values(), ids=VARIANTS.keys())


def entropy(p: torch.Tensor) -> float:
    return -sum(x * math.log(x) for x in map(float, p.tolist()) if x > 0)


def test_common_tokens_have_a_weight_of_one_and_distinct_ones_a_tenth_to_one() -> None:
    probabilities = syn_small().distribution()
    assert probabilities[0, :10].tolist() == pytest.approx([1 / 15.5] * 10, abs=FLOAT64)
    assert probabilities[1, 20:30].tolist() == pytest.approx([k / 155 for k in range(1, 11)], abs=FLOAT64)
    assert not probabilities[1, 10:20].any()


def test_the_vocabularies_have_the_papers_sizes() -> None:
    assert [syn_small().d_vocab, *(syn_medium(n).d_vocab for n in (1, 3, 5, 10))] == [34, 33, 79, 125, 240]
    assert [syn_medium(n).n_classes for n in (1, 3, 5, 10)] == [2, 6, 10, 20]


def test_entropies_and_overlap_are_the_recorded_ones() -> None:
    first, second = syn_small().distribution()
    distinct = first[10:20] / first[10:20].sum()
    assert entropy(distinct) == pytest.approx(2.151282, abs=PRINTED)
    assert entropy(first) == pytest.approx(2.899287, abs=PRINTED)
    overlap = (first @ second / first.norm() / second.norm()).item()
    assert overlap == pytest.approx(0.722022, abs=PRINTED)


@every_variant
def test_every_token_has_one_role(task: SequenceClasses) -> None:
    roles = [range(task.n_common), task.distinct_tokens.flatten(), task.queries.unique(), task.labels]
    assert sorted(int(token) for role in roles for token in role) == list(range(task.d_vocab))
    assert task.distribution().sum(1).tolist() == pytest.approx([1.0] * task.n_classes, abs=FLOAT64)


@every_variant
def test_samples_follow_the_distribution(task: SequenceClasses) -> None:
    batch = task.sample(600, seed=3)
    classes = batch.targets[:, -1] - task.labels[0]
    assert torch.equal(batch.tokens[:, -1], task.queries[classes])
    for label, probabilities in enumerate(task.distribution()):
        seen = batch.tokens[classes == label, :-1].flatten().bincount(minlength=task.d_vocab)
        assert not seen[probabilities == 0].any()
        expected = seen.sum() * probabilities[probabilities > 0]
        assert chisquare(seen[probabilities > 0], expected, sum_check=False).pvalue > 1e-3


@every_variant
def test_relations_are_the_distinct_and_the_common_tokens_before_the_query(task: SequenceClasses) -> None:
    batch = task.sample(4, seed=1)
    for row, tokens in enumerate(batch.tokens.tolist()):
        for query in range(task.n_ctx):
            distinct = [k < query and task.n_common <= t < task.queries[0] for k, t in enumerate(tokens)]
            common = [k < query and t < task.n_common for k, t in enumerate(tokens)]
            assert batch.relations["distinct"][row, query].tolist() == distinct
            assert batch.relations["common"][row, query].tolist() == common


@every_variant
def test_the_class_reference_is_bayes_rule(task: SequenceClasses) -> None:
    batch = task.probe_batch(30, seed=0)
    for row in range(30):
        likelihood = task.distribution()[:, batch.tokens[row, :-1]].log().sum(1).exp()
        posterior = likelihood * (task.queries == batch.tokens[row, -1])
        expected = torch.zeros(task.d_vocab, dtype=torch.float64)
        expected[task.labels] = posterior / posterior.sum()
        assert batch.references["class"][row, -1].exp().tolist() == pytest.approx(expected.tolist(), abs=PRINTED)


@every_variant
def test_references_are_laws_and_the_last_is_the_best(task: SequenceClasses) -> None:
    batch = task.probe_batch(50, seed=0)
    losses = []
    for probabilities in batch.references.values():
        torch.testing.assert_close(probabilities.exp().sum(-1), torch.ones(50, task.n_ctx))
        losses.append(-probabilities[:, -1].gather(1, batch.targets[:, -1:]).mean().item())
    assert list(batch.references) == ["uniform", "labels", "query", "class"]
    assert losses == sorted(losses, reverse=True)


def test_a_sequence_without_distinct_tokens_leaves_the_querys_labels() -> None:
    task = SequenceClasses(2, 2, n_common=2, n_distinct=1, length=1, distinct_weights=(0.1, 0.1))
    batch = task.probe_batch(40, seed=0)
    common = batch.tokens[:, 0] < 2
    assert common.any()
    assert torch.equal(batch.references["class"][common], batch.references["query"][common])


def test_the_population_batch_holds_every_token_as_often_as_the_law_says() -> None:
    task = syn_medium(3)
    batch = task.population_batch()
    counts = torch.stack([tokens.bincount(minlength=task.d_vocab) for tokens in batch.tokens[:, :-1]])
    torch.testing.assert_close(counts.double() / 155, task.distribution(), atol=FLOAT64, rtol=0)
    assert torch.equal(batch.targets[:, -1], task.labels)


def test_the_vocabulary_batch_holds_every_token_once() -> None:
    task = syn_medium(3)
    batch = task.vocabulary_batch()
    assert batch.tokens[:, :-1].tolist() == [list(range(task.d_vocab))] * 3
    assert batch.tokens[:, -1].tolist() == task.queries.unique().tolist()
    own = batch.relations["distinct"][1, -1].nonzero().flatten()
    assert torch.equal(own, task.distinct_tokens[2:4].flatten())


def test_the_data_of_a_step_depend_on_seed_and_step_alone() -> None:
    for published in (False, True):
        draw = syn_small(published).stream(5)
        first = [draw(step, 6).tokens for step in (0, 1, 2)]
        again = [syn_small(published).stream(5)(step, 6).tokens for step in (2, 0)]
        assert torch.equal(again[0], first[2])
        assert torch.equal(draw(0, 6).tokens, first[0])
        assert not torch.equal(first[0], first[1])


def test_the_published_weights_come_before_the_published_data() -> None:
    task = syn_medium(1, published=True)
    torch.manual_seed(7 + 2)
    decoder, attention = (torch.nn.Linear(33, 33, bias=False).weight for _ in range(2))
    y, z = published_weights(task.d_vocab, 7)
    assert torch.equal(y, decoder.T)
    assert torch.equal(z, attention)
    slots = torch.multinomial(task.distribution()[0, task.support[0]].float(), 127, replacement=True)
    tokens = task.stream(7)(0, 1).tokens[0, :-1]
    assert tokens.tolist() in task.support[:, slots].tolist()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_queries": 0}, "n_queries: expected a whole number of at least 1, got 0"),
        ({"length": 0}, "length: expected a whole number of at least 1, got 0"),
        ({"common_weight": -1.0}, r"common_weight must be positive, got -1\.0"),
        ({"distinct_weights": (0.0, 1.0)}, "both positive, got"),
        ({"n_sequences": 0}, "n_sequences: expected a whole number of at least 1, or null, got 0"),
        ({"n_sequences": 5, "published": True}, "the published streams are fresh data"),
    ],
    ids=str,
)
def test_a_parameter_out_of_range_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SequenceClasses(**changes)


def test_no_sequences_and_broken_frequencies_are_refused() -> None:
    with pytest.raises(ValueError, match="number of sequences must be positive, got 0"):
        syn_small().sample(0, seed=0)
    with pytest.raises(ValueError, match="not a multiple of 1/100"):
        syn_small().population_batch(100)


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
