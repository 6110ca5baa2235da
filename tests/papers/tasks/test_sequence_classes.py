"""Sequence classes: the probabilities, its recorded numbers, references."""

import math
from typing import Any

import pytest
import torch
from scipy.stats import chisquare

from stagewise.papers.tasks import SequenceClasses, syn_medium, syn_small

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
        assert chisquare(seen[probabilities > 0], expected).pvalue > 1e-3


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


def test_the_data_of_a_step_depend_on_seed_and_step_alone() -> None:
    draw = syn_small().stream(5)
    first = [draw(step, 6).tokens for step in (0, 1, 2)]
    again = [syn_small().stream(5)(step, 6).tokens for step in (2, 0)]
    assert torch.equal(again[0], first[2])
    assert torch.equal(draw(0, 6).tokens, first[0])
    assert not torch.equal(first[0], first[1])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_queries": 0}, "n_queries: expected a whole number of at least 1, got 0"),
        ({"length": 0}, "length: expected a whole number of at least 1, got 0"),
        ({"common_weight": -1.0}, r"common_weight must be positive, got -1\.0"),
        ({"distinct_weights": (0.0, 1.0)}, "both positive, got"),
        ({"n_sequences": 0}, "n_sequences: expected a whole number of at least 1, or null, got 0"),
    ],
    ids=str,
)
def test_a_parameter_out_of_range_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SequenceClasses(**changes)


def test_no_sequences_are_refused() -> None:
    with pytest.raises(ValueError, match="number of sequences must be positive, got 0"):
        syn_small().sample(0, seed=0)
