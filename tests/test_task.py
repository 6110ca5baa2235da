"""Batches, seeds and streams: what every task gives."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from stagewise.task import EVALUATION, TEACHER, TRAINING, AbstractTask, Batch, derive_seed
from stagewise.tasks import MarkovChain, RepeatedTokens, Windows

SOURCE = MarkovChain(d_vocab=5, spans=(1, 1), length=4, n_sequences=30)
FRESH = dataclasses.replace(SOURCE, n_sequences=None)
TASKS = {"finite": SOURCE, "fresh": FRESH, "windows": Windows(SOURCE, 2), "fresh windows": Windows(FRESH, 2)}
every_task = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS.keys())


def rows_of(batch: Batch) -> list[tuple[int, ...]]:
    return [tuple(row) for row in torch.cat([batch.tokens, batch.targets], 1).tolist()]


@every_task
def test_a_step_always_gets_the_same_data(task: AbstractTask) -> None:
    one, other = task.stream(3), task.stream(3)
    other(0, 8)
    for step in (5, 0, 5):
        assert torch.equal(one(step, 8).tokens, other(step, 8).tokens)
        assert torch.equal(one(step, 8).targets, other(step, 8).targets)


@every_task
def test_another_step_or_seed_gets_other_data(task: AbstractTask) -> None:
    batches = [task.stream(3)(0, 16), task.stream(3)(1, 16), task.stream(4)(0, 16)]
    assert len({str(rows_of(batch)) for batch in batches}) == 3


def test_a_finite_data_set_holds_as_many_sequences_as_it_says() -> None:
    stream = dataclasses.replace(SOURCE, d_vocab=20).stream(0)
    seen = {row for step in range(40) for row in rows_of(stream(step, 15))}
    assert len(seen) == 30


def test_a_batch_of_a_finite_data_set_repeats_no_sequence() -> None:
    batch = dataclasses.replace(SOURCE, d_vocab=20).stream(0)(0, 30)
    assert len(set(rows_of(batch))) == 30


def test_a_finite_data_set_smaller_than_the_batch_is_given_whole() -> None:
    stream = SOURCE.stream(0)
    assert sorted(rows_of(stream(0, 500))) == sorted(rows_of(stream(9, 30)))


def test_fresh_data_are_never_seen_twice() -> None:
    stream = dataclasses.replace(FRESH, d_vocab=30, length=12, temperature=5.0).stream(0)
    rows = [row for step in range(20) for row in rows_of(stream(step, 50))]
    assert len(set(rows)) == 1000


def test_training_and_evaluation_data_share_nothing_under_one_seed() -> None:
    for task in (SOURCE, FRESH):
        wide = dataclasses.replace(task, d_vocab=30, length=12, temperature=5.0)
        stream = wide.stream(0)
        trained = {row for step in range(20) for row in rows_of(stream(step, 30))}
        # 30 sequences are also drawn at once in training: the same seed would give the very same ones.
        for n in (30, 500):
            assert not trained & set(rows_of(wide.probe_batch(n, seed=0)))


def test_the_probe_batch_carries_references_and_repeats() -> None:
    one, other = SOURCE.probe_batch(6, seed=2), SOURCE.probe_batch(6, seed=2)
    assert torch.equal(one.tokens, other.tokens)
    assert list(one.references) == ["uniform", "A*_1", "A*_1:2"]
    assert not torch.equal(one.tokens, SOURCE.probe_batch(6, seed=3).tokens)


def test_derived_seeds_of_all_purposes_and_steps_differ() -> None:
    paths = [(EVALUATION,), (TEACHER,), *((TRAINING, step) for step in range(50))]
    derived = [derive_seed(seed, *path) for seed in range(20) for path in paths]
    assert len(set(derived)) == len(derived)
    assert all(0 <= seed < 2**63 for seed in derived)


def test_a_derived_seed_is_that_of_numpys_seed_sequence() -> None:
    words = np.random.SeedSequence(5, spawn_key=(EVALUATION,)).generate_state(1, np.uint64)
    assert derive_seed(5, EVALUATION) == int(words[0]) // 2


def test_no_two_seeds_and_purposes_share_a_derived_seed() -> None:
    paths = [(), (0,), (0, 0), (0, 0, 0), (1,), (1, 0), (2**32,), (0, 2**32)]
    derived = [derive_seed(seed, *path) for seed in (0, 5, 2**32) for path in paths]
    assert len(set(derived)) == len(derived)


def test_moving_a_batch_moves_all_of_it() -> None:
    batch = SOURCE.probe_batch(3, seed=0).to("meta")
    tensors = [
        batch.tokens,
        batch.targets,
        batch.scored,
        *batch.relations.values(),
        *batch.references.values(),
    ]
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    assert len(batch) == 3


def test_added_references_come_before_the_complete_one() -> None:
    batch = SOURCE.probe_batch(3, seed=0)
    added = batch.with_references({"mine": batch.references["uniform"]})
    assert list(added.references) == ["mine", "uniform", "A*_1", "A*_1:2"]
    assert list(batch.references) == ["uniform", "A*_1", "A*_1:2"]
    assert torch.equal(added.tokens, batch.tokens)


def test_a_relation_starts_where_some_query_has_a_key() -> None:
    back = torch.zeros(3, 2, 2, dtype=torch.bool)
    back[[0, 2], 1, 0] = True
    ids = torch.zeros(3, 2, dtype=torch.int64)
    batch = Batch(ids, ids, ids == 0, {"back": back, "self": torch.eye(2).bool().expand(3, -1, -1)})
    assert batch.starts("back").tolist() == [True, False, True]


def test_a_task_names_neither_contexts_nor_value_features_unless_it_says_so() -> None:
    task = RepeatedTokens(8, 4)
    assert task.contexts is None
    assert dict(task.value_features()) == {}


@dataclasses.dataclass(frozen=True)
class Short(AbstractTask):
    """A task of one's own that says nothing of a training set."""

    d_vocab, n_ctx = 3, 2

    def sample(self, n: int, seed: int) -> Batch:
        tokens = torch.randint(3, (n, 2), generator=torch.Generator().manual_seed(seed % 1000))
        return Batch(tokens, tokens, torch.ones(n, 2, dtype=torch.bool))


def test_a_task_that_names_no_training_set_draws_fresh_data_at_every_step() -> None:
    stream = Short().stream(seed=0)
    assert torch.equal(stream(1, 50).tokens, stream(1, 50).tokens)
    assert not torch.equal(stream(1, 50).tokens, stream(2, 50).tokens)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_a_batch_of_nothing_is_refused(shape: tuple[int, ...]) -> None:
    tokens = torch.zeros(shape, dtype=torch.long)
    with pytest.raises(ValueError, match="a batch is at least one sequence of one position, got tokens"):
        Batch(tokens, tokens, tokens.bool())


@pytest.mark.parametrize("field", ["targets", "scored", "relation", "reference"])
def test_parts_of_a_batch_that_do_not_fit_its_tokens_are_refused(field: str) -> None:
    tokens = torch.zeros(2, 3, dtype=torch.long)
    whole = {
        "targets": tokens,
        "scored": tokens.bool(),
        "relation": torch.ones(2, 3, 3),
        "reference": torch.zeros(2, 3),
    }
    whole[field] = whole[field][:1]
    parts = {"relations": {"relation": whole.pop("relation")}, "references": {"reference": whole.pop("reference")}}
    # Beside the constructor: in the tests it has its shapes checked by jaxtyping before that.
    given: Any = SimpleNamespace(tokens=tokens, nested=None, contexts={}, **whole, **parts)
    with pytest.raises(ValueError, match=rf"tokens are \(2, 3\) \(sequences, positions\), {field} is \(1, 3"):
        Batch.__post_init__(given)


def test_sequences_of_ones_own_are_a_tensor_an_array_or_lists() -> None:
    rows = [[1, 2, 3], [3, 2, 1]]
    batches = [Batch.from_tokens(given) for given in (torch.tensor(rows), np.array(rows), rows)]
    assert all(batch.targets.tolist() == [[2, 3], [2, 1]] for batch in batches)
    with pytest.raises(ValueError, match=r"two tokens at least, the last one to predict; got \(2, 1\)"):
        Batch.from_tokens([[1], [2]])


@pytest.mark.usefixtures("unchecked")
def test_tokens_that_are_no_whole_numbers_are_refused() -> None:
    assert Batch.from_tokens(torch.tensor([[1.0, 2.0]])).tokens.tolist() == [[1]]
    with pytest.raises(ValueError, match=r"tokens are whole numbers, got 2.5 among them"):
        Batch.from_tokens(torch.tensor([[1.0, 2.5]]))


def test_sequences_of_several_lengths_are_refused_with_the_way_to_pad_them() -> None:
    with pytest.raises(ValueError, match=r"one length, got 2 to 3 tokens: .* pad them behind .* give `scored`"):
        Batch.from_tokens([[1, 2, 3], [4, 5]])
    rows = [torch.tensor([1, 2, 3]), torch.tensor([3, 2, 1])]
    assert Batch.from_tokens(rows).targets.tolist() == [[2, 3], [2, 1]]
    with pytest.raises(ValueError, match=r"got \(0,\)"):
        Batch.from_tokens([])


def test_a_batch_prints_in_a_few_lines_what_is_in_it() -> None:
    batch = Batch.from_tokens(torch.arange(6).repeat(3, 2), ["induction", "previous token"])
    assert (
        str(batch)
        == repr(batch)
        == (
            "Batch(3 sequences of 11 tokens; 33 of 33 predictions are scored)\n"
            "  relations: induction (in 3), previous token (in 3)"
        )
    )
