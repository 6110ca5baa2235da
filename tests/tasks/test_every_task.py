"""Laws that every task of the catalogue keeps: a new one is tested without an edit."""

import dataclasses
import json
import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from stagewise import tasks
from stagewise.cli._names import TASKS as NAMES
from stagewise.loss import cross_entropy, mean_scored, squared_error
from stagewise.recipe import describe, rebuild
from stagewise.task import AbstractTask, Batch
from stagewise.tasks import MarkovChain

pytestmark = pytest.mark.usefixtures("unchecked")

TASKS: dict[str, type[AbstractTask]] = {name: getattr(tasks, name) for name in sorted(NAMES.values())}

UNSOLVED = {
    "WikiText": "its references are n-gram models",
    "Windows": "what a longer context says is not known from a window",
}
"""Tasks whose references do not end in a complete solution, and why. Others may have none at all."""

GIVEN = {
    "Text": "a text has the windows that it has",
    "Tokens": "a file has the sequences that it has",
    "WikiText": "windows are drawn anew at every step",
    "Windows": "it has the windows of the other task's sequences",
}
"""Tasks whose number of sequences cannot be chosen, and why."""

FLOAT32 = 1e-5
"""Sums of a few hundred float32 probabilities."""

SAMPLING_ERROR = 4.0
"""Standard errors of a paired difference that chance is allowed."""

MANY = 400
"""Sequences in which the best prediction shows as the best."""

ANY_NUMBER = {"seed"}
"""Fields in which every number has a meaning, or is refused where it is used."""

ABSURD: dict[object, float] = {int: -1, float: -1.0, int | None: -1, float | None: -1.0}
NUMBERS = [
    (name, field.name, ABSURD[field.type])
    for name, cls in TASKS.items()
    for field in dataclasses.fields(cls)  # type: ignore[arg-type]  # every leaf is a dataclass
    if field.type in ABSURD and field.name not in ANY_NUMBER
]
"""Each task's numeric fields, with a number that none of them can have."""


@pytest.fixture(scope="session", params=TASKS)
def task(request: pytest.FixtureRequest, tokenizer: str, letters: str) -> AbstractTask:
    """Every task with its defaults; those that need arguments get them here."""
    words = random.Random(0).choices(["the", "cat", "saw", "dog", "and", "again"], k=4000)
    needed: dict[str, dict[str, Any]] = {
        "Text": {"tokenizer": tokenizer, "text": " ".join(words), "length": 8},
        "Tokens": {"file": f"{letters}/tokens.npy", "length": 8},
        "WikiText": {"data": letters, "length": 16},
        "Windows": {"task": MarkovChain(d_vocab=6, n_sequences=50), "context": 3},
    }
    cls = TASKS[request.param]
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]  # every leaf is a dataclass
    required = {field.name for field in fields if field.default is field.default_factory is dataclasses.MISSING}
    if missing := required - set(needed.get(request.param, {})):
        pytest.fail(f"{request.param} has no default for {', '.join(sorted(missing))}: give some in `needed`, here")
    return cls(**needed.get(request.param, {}))


@pytest.fixture(scope="session")
def batch(task: AbstractTask) -> Batch:
    return task.probe_batch(8, seed=0)


def contents(batch: Batch) -> list[Tensor]:
    return [
        batch.tokens,
        batch.targets,
        batch.scored,
        *batch.relations.values(),
        *batch.references.values(),
    ]


def same(one: Batch, other: Batch) -> bool:
    pairs = list(zip(contents(one), contents(other), strict=True))
    return all(torch.equal(a, b) for a, b in pairs) and list(one.relations) == list(other.relations)


def differ(one: Batch, other: Batch) -> bool:
    return not (torch.equal(one.tokens, other.tokens) and torch.equal(one.targets, other.targets))


@pytest.mark.one_of(3)
def test_a_seed_repeats_and_another_does_not(task: AbstractTask) -> None:
    for sample in (task.sample, task.probe_batch):
        assert same(sample(8, 3), sample(8, 3))
        assert differ(sample(8, 3), sample(8, 4))


@pytest.mark.one_of(3)
def test_the_data_of_a_step_are_a_function_of_seed_and_step(task: AbstractTask) -> None:
    one, other = task.stream(3), task.stream(3)
    later = other(5, 8)
    for step in (0, 5, 2):
        assert same(one(step, 8), other(step, 8))
    assert same(one(5, 8), later)
    assert differ(one(0, 8), one(1, 8))
    assert differ(one(0, 8), task.stream(4)(0, 8))


@pytest.mark.one_of(3)
def test_training_and_evaluation_have_streams_of_their_own(task: AbstractTask) -> None:
    probed, stream = task.probe_batch(8, seed=3), task.stream(3)
    assert all(differ(probed, stream(step, 8)) for step in range(3))


@pytest.mark.parametrize("task", sorted(TASKS.keys() - GIVEN.keys()), indirect=True)
def test_a_finite_data_set_has_as_many_sequences_as_it_says(task: AbstractTask) -> None:
    stream = dataclasses.replace(task, n_sequences=6).stream(0)  # type: ignore[type-var]
    rows = {str(row.tolist()) for step in range(6) for row in stream(step, 4).tokens}
    assert len(rows) == 6
    assert len(stream(0, 100)) == 6


@pytest.mark.one_of(3)
def test_sampling_leaves_the_global_generators_alone(task: AbstractTask) -> None:
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state(legacy=False)  # noqa: NPY002
    task.probe_batch(4, seed=0)
    task.stream(0)(0, 4)
    assert torch.equal(torch_state, torch.get_rng_state())
    assert str(numpy_state) == str(np.random.get_state(legacy=False))  # noqa: NPY002


def test_a_batch_has_the_shapes_and_types_that_it_says(task: AbstractTask, batch: Batch) -> None:
    n, length = batch.tokens.shape[:2]
    assert (n, length) == (8, task.n_ctx)
    assert batch.targets.shape[:2] == batch.scored.shape == (n, length)
    assert batch.scored.dtype == torch.bool
    if batch.is_regression:
        assert (batch.tokens.ndim, batch.targets.ndim) == (3, 3)
        assert batch.tokens.shape[2] == task.d_vocab
        assert bool(batch.tokens.isfinite().all() and batch.targets.isfinite().all())
    else:
        assert batch.targets.dtype == torch.int64
        assert 0 <= int(batch.targets.min()) <= int(batch.targets.max()) < task.d_vocab


@pytest.mark.one_of(3)
def test_tokens_are_numbers_below_the_size_of_the_vocabulary(task: AbstractTask, batch: Batch) -> None:
    if batch.tokens.is_floating_point():
        assert batch.is_regression
        return
    for tokens in (batch.tokens, task.stream(0)(0, 8).tokens):
        assert tokens.dtype == torch.int64
        assert 0 <= int(tokens.min()) <= int(tokens.max()) < task.d_vocab


@pytest.mark.one_of(3)
def test_every_sequence_has_a_prediction_that_counts(task: AbstractTask, batch: Batch) -> None:
    assert bool(batch.scored.any(1).all())
    assert bool(task.stream(0)(0, 8).scored.any(1).all())


def test_relations_lead_from_queries_to_keys_that_are_not_after_them(batch: Batch) -> None:
    n, length = batch.scored.shape
    for name, mask in batch.relations.items():
        assert (mask.dtype, mask.shape) == (torch.bool, (n, length, length)), name
        assert bool(mask.any()), name
        assert not mask.triu(1).any(), name


def test_references_are_laws_wherever_a_prediction_counts(task: AbstractTask, batch: Batch) -> None:
    for name, reference in batch.references.items():
        if batch.is_regression:
            assert reference.shape == batch.targets.shape, name
            assert bool(reference[batch.scored].isfinite().all()), name
        else:
            assert reference.shape == (*batch.scored.shape, task.d_vocab), name
            total = reference[batch.scored].exp().sum(-1)
            torch.testing.assert_close(total, torch.ones_like(total), atol=FLOAT32, rtol=0)


def test_the_references_of_a_sequence_are_its_own(task: AbstractTask, batch: Batch) -> None:
    rows = torch.tensor([5, 0])
    for name, reference in task.references(batch[rows]).items():
        torch.testing.assert_close(reference, batch.references[name][rows], atol=FLOAT32, rtol=0)


def losses(batch: Batch) -> dict[str, Tensor]:
    """Each reference's loss by sequence, over the predictions that count."""
    loss = squared_error if batch.is_regression else cross_entropy
    return {name: mean_scored(loss(one, batch.targets), batch.scored) for name, one in batch.references.items()}


@pytest.mark.parametrize("task", sorted(TASKS.keys() - UNSOLVED.keys()), indirect=True)
def test_the_complete_solution_is_the_best_of_the_references(task: AbstractTask) -> None:
    known = losses(task.probe_batch(MANY, seed=1))
    if not known:
        pytest.skip(f"{type(task).__name__} has no references")
    *partial, complete = known.values()
    assert partial
    for loss in partial:
        gain = (loss - complete).double()
        assert bool(gain.mean() >= -SAMPLING_ERROR * gain.std() / MANY**0.5)
    assert bool((partial[0] - complete).mean() > 0)


def test_nested_references_are_there_and_end_in_the_complete_one(task: AbstractTask, batch: Batch) -> None:
    assert batch.nested == task.nested
    assert set(batch.nested_references) <= set(batch.references)
    assert not batch.nested_references or batch.nested_references[-1] == list(batch.references)[-1]
    assert bool(batch.nested_references) <= (type(task).__name__ not in UNSOLVED)


def test_a_task_comes_back_from_its_record(task: AbstractTask) -> None:
    assert rebuild(json.loads(json.dumps(describe(task))), TASKS.values()) == task
    assert hash(task) == hash(dataclasses.replace(task))  # type: ignore[type-var]


def test_no_sequences_cannot_be_sampled(task: AbstractTask) -> None:
    with pytest.raises(ValueError, match=r"sequences must be positive|needs a window or more|contexts must be"):
        task.sample(0, seed=0)


@pytest.mark.parametrize(("task", "field", "absurd"), NUMBERS, indirect=["task"])
def test_a_number_without_a_meaning_is_refused(task: AbstractTask, field: str, absurd: float) -> None:
    with pytest.raises(ValueError, match="-1"):
        dataclasses.replace(task, **{field: absurd})  # type: ignore[type-var]
