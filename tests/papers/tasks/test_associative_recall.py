"""Associative recall, read back by a slow look-up of each query."""

import dataclasses

import pytest
import torch

from stagewise.papers.tasks import AssociativeRecall

TASK = AssociativeRecall(n_pairs=5, n_tokens=12)
REPEATED = dataclasses.replace(TASK, n_copies=3.0)
BERNOULLI = dataclasses.replace(TASK, copies="bernoulli")
every_kind = pytest.mark.parametrize("task", [TASK, REPEATED, BERNOULLI], ids=["one", "repeated", "bernoulli"])


@every_kind
def test_the_target_is_the_value_that_follows_the_query(task: AssociativeRecall) -> None:
    batch = task.sample(100, seed=0)
    for tokens, target, mask in zip(batch.tokens, batch.targets, batch.relations["query to value"], strict=True):
        keys, values, query = tokens[:-1:2].tolist(), tokens[1::2].tolist(), tokens[-1].item()
        found = {value for key, value in zip(keys, values, strict=True) if key == query}
        assert found <= {target[-1].item()}
        expected = [position % 2 == 1 and tokens[position - 1].item() == query for position in range(11)]
        assert mask[-1].tolist() == expected
        assert not mask[:-1].any()


@every_kind
def test_other_keys_are_distinct_and_a_key_has_one_value(task: AssociativeRecall) -> None:
    for tokens in task.sample(100, seed=1).tokens:
        pairs = list(zip(tokens[:-1:2].tolist(), tokens[1::2].tolist(), strict=True))
        others = [key for key, _ in pairs if key != tokens[-1].item()]
        assert len(set(others)) == len(others)
        assert len({value for _, value in set(pairs)}) == len(set(pairs))


@pytest.mark.parametrize(
    ("copies", "n_copies"), [("forced", 1.0), ("forced", 2.5), ("forced", 5.0), ("bernoulli", 2.5)]
)
def test_the_query_has_as_many_copies_as_asked_for(copies: str, n_copies: float) -> None:
    task = AssociativeRecall(n_pairs=5, n_tokens=12, n_copies=n_copies, copies=copies)  # type: ignore[arg-type]
    counts = task.sample(3000, seed=0).relations["query to key"][:, -1].sum(1)
    assert counts.float().mean().item() == pytest.approx(n_copies, abs=0.1)
    assert (int(counts.min()) >= 1) == (copies == "forced")


def test_one_literal_copy_leaves_the_query_out_of_a_third_of_the_sequences() -> None:
    counts = BERNOULLI.sample(3000, seed=0).relations["query to key"][:, -1].sum(1)
    assert (counts == 0).float().mean().item() == pytest.approx((1 - 1 / 5) ** 5, abs=0.03)


@pytest.mark.parametrize("p", [0.0, 0.4, 1.0])
def test_two_tokens_are_asked_for_in_a_share_p_more(p: float) -> None:
    query = dataclasses.replace(TASK, p=p).sample(4000, seed=0).tokens[:, -1]
    assert (query == 0).float().mean().item() == pytest.approx(p / 2 + (1 - p) / 12, abs=0.03)
    assert (query == 7).float().mean().item() == pytest.approx((1 - p) / 12, abs=0.03)


def test_the_probe_batch_is_without_repetition() -> None:
    batch = dataclasses.replace(REPEATED, p=0.9).probe_batch(500, seed=0)
    assert batch.relations["query to value"].sum().item() == 500
    assert (batch.tokens[:, -1] < 2).float().mean().item() < 0.3


def test_references_guess_first_and_recall_last() -> None:
    batch = TASK.probe_batch(40, seed=0)
    probs = {name: reference[:, -1].exp() for name, reference in batch.references.items()}
    target = batch.targets[:, -1:]
    assert probs["uniform"].gather(1, target)[:, 0].tolist() == pytest.approx([1 / 12] * 40)
    assert probs["a value of the context"].gather(1, target)[:, 0].tolist() == pytest.approx([1 / 5] * 40)
    assert probs["recall"].gather(1, target)[:, 0].tolist() == [1] * 40
    for reference in batch.references.values():
        assert torch.allclose(reference.exp().sum(-1), torch.ones(40, 11), atol=1e-5)


def test_values_lead_to_their_keys() -> None:
    mask = TASK.sample(1, seed=0).relations["value to key"][0]
    assert mask.nonzero().tolist() == [[1, 0], [3, 2], [5, 4], [7, 6], [9, 8]]


def test_several_queries_ask_for_different_keys_each_with_its_own_value() -> None:
    task = dataclasses.replace(TASK, n_queries=3)
    batch = task.probe_batch(200, seed=0)
    assert batch.tokens.shape == (200, 13)
    assert batch.scored[0].tolist() == [False] * 10 + [True] * 3
    for i, tokens in enumerate(batch.tokens.tolist()):
        value_of = dict(zip(tokens[:10:2], tokens[1:10:2], strict=True))
        queries = tokens[10:]
        assert len(set(queries)) == 3
        for at, query in enumerate(queries, start=10):
            assert batch.targets[i, at] == value_of[query]
            key = tokens[:10:2].index(query) * 2
            assert batch.relations["query to key"][i, at].nonzero().tolist() == [[key]]
            assert batch.relations["query to value"][i, at].nonzero().tolist() == [[key + 1]]
            assert batch.references["recall"][i, at].exp()[value_of[query]] == 1
    assert not batch.relations["value to key"][:, 10:].any()


def test_every_slot_is_asked_for_first_equally_often() -> None:
    first = dataclasses.replace(TASK, n_queries=3).sample(4000, seed=0).relations["query to key"][:, 10, :10:2]
    assert first.float().mean(0).tolist() == pytest.approx([0.2] * 5, abs=0.03)


def test_a_single_query_has_the_data_that_it_always_had() -> None:
    batch = AssociativeRecall(n_pairs=2, n_tokens=5).sample(2, seed=0)
    several = AssociativeRecall(n_pairs=2, n_tokens=5, n_queries=2).sample(2, seed=0)
    assert torch.equal(batch.tokens[:, :4], several.tokens[:, :4])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_pairs": 12}, "n_pairs=12, n_tokens=12"),
        ({"n_pairs": 0}, "between 1 and n_tokens - 1"),
        ({"n_copies": 6.0}, "of the n_pairs = 5 slots, at least 1; got 6"),
        ({"n_copies": 0.5}, "at least 1; got 0.5"),
        ({"p": 1.5}, "p: expected a finite number from 0 to 1, got 1.5"),
        ({"p": -1.0}, "p: expected a finite number from 0 to 1, got -1"),
        ({"n_queries": 6}, "at most n_pairs = 5, got 6"),
        ({"n_queries": 0}, "at least 1"),
        ({"n_queries": 2, "n_copies": 2.0}, "several queries need every key once"),
        ({"n_queries": 2, "copies": "bernoulli"}, "copies='bernoulli'"),
        ({"n_sequences": 0}, "n_sequences: expected a whole number of at least 1, or null, got 0"),
    ],
)
def test_parameters_without_a_meaning_are_refused(parameters: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TASK, **parameters)  # type: ignore[arg-type]
