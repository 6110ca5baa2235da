"""Slices: how many a budget of memory allows; and passes that are run when they are asked for."""

import pytest
import torch

from stagewise.architecture import Architecture
from stagewise.intervention import AblateHead, Edit
from stagewise.measurement.passes import ENOUGH, OnDemand, default_memory, slices
from stagewise.probe import EditedPass
from stagewise.task import Batch
from stagewise.tasks import RepeatedTokens

SIZES = Architecture({"n_layers": 2, "d_model": 8, "n_heads": 2, "d_head": 4, "n_ctx": 24, "d_vocab": 32})


@pytest.fixture(scope="module")
def batch() -> Batch:
    return RepeatedTokens(32, length=12).probe_batch(10, seed=0)


def test_a_budget_that_suffices_leaves_the_batch_whole(batch: Batch) -> None:
    assert slices(batch, SIZES, 2**30) == [batch]


@pytest.mark.parametrize("memory", [1, 10_000, 30_000])
def test_slices_are_of_about_equal_size_and_make_up_the_batch(batch: Batch, memory: int) -> None:
    parts = slices(batch, SIZES, memory)
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    assert torch.equal(torch.cat([part.tokens for part in parts]), batch.tokens)
    for name, mask in batch.relations.items():
        assert torch.equal(torch.cat([part.relations[name] for part in parts]), mask)


def test_less_memory_makes_more_slices_to_one_sequence_each(batch: Batch) -> None:
    numbers = [len(slices(batch, SIZES, memory)) for memory in (2**30, 30_000, 10_000, 1)]
    assert numbers == sorted(numbers)
    assert numbers[0] == 1
    assert numbers[1] > 1
    assert numbers[-1] == len(batch)


def test_the_default_is_some_memory() -> None:
    assert 0 < default_memory() <= ENOUGH


def test_a_pass_is_run_once_and_only_when_it_is_asked_for() -> None:
    first, second = edits = ((AblateHead(0, 0),), (AblateHead(0, 1),))
    run: list[Edit] = []

    def reduced(edit: Edit) -> EditedPass:
        run.append(edit)
        return EditedPass(torch.zeros(1), torch.zeros(1), lambda: torch.zeros(1, 1))

    passes = OnDemand(dict.fromkeys(edits), reduced)
    assert list(passes) == [first, second]
    assert passes[second] is passes[second]
    assert run == [second]
    with pytest.raises(KeyError):
        passes[(AblateHead(3, 3),)]
