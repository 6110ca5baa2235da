"""Slices: how many a budget of memory allows; and passes that are run when they are asked for."""

from functools import partial

import pytest
import torch

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.init import GaussianInit
from stagewise.intervention import AblateHead, Edit
from stagewise.measurement import _passes as passes
from stagewise.measurement._passes import (
    _ENOUGH,
    OnDemand,
    SlicePasses,
    cut,
    default_memory,
    enough,
    slices_needed,
)
from stagewise.models import lean as lean
from stagewise.models._edits import replacement
from stagewise.models._lean_weights import LeanWeights
from stagewise.probe import EditedPass
from stagewise.task import Batch
from stagewise.tasks import RepeatedTokens

SIZES = Architecture({"n_layers": 2, "d_model": 8, "n_heads": 2, "d_head": 4, "n_ctx": 24, "d_vocab": 32})


@pytest.fixture(scope="module")
def batch() -> Batch:
    return RepeatedTokens(32, length=12).probe_batch(10, seed=0)


def test_a_budget_that_suffices_leaves_the_batch_whole(batch: Batch) -> None:
    assert cut(batch, slices_needed(batch, SIZES, 2**30)) == [batch]


@pytest.mark.parametrize("memory", [1, 10_000, 30_000])
def test_slices_are_of_about_equal_size_and_make_up_the_batch(batch: Batch, memory: int) -> None:
    parts = cut(batch, slices_needed(batch, SIZES, memory))
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    assert torch.equal(torch.cat([part.tokens for part in parts]), batch.tokens)
    for name, mask in batch.relations.items():
        assert torch.equal(torch.cat([part.relations[name] for part in parts]), mask)


def test_less_memory_makes_more_slices_to_one_sequence_each(batch: Batch) -> None:
    numbers = [slices_needed(batch, SIZES, memory) for memory in (2**30, 30_000, 10_000, 1)]
    assert numbers == sorted(numbers)
    assert numbers[0] == 1
    assert numbers[1] > 1
    assert numbers[-1] == len(batch)


def test_predictions_that_nobody_reads_take_no_memory(batch: Batch) -> None:
    wide = Architecture({**SIZES.config, "d_vocab": 50_000})
    read, unread = (slices_needed(batch, wide, 2**25, predictions=predictions) for predictions in (True, False))
    assert read > 1
    assert unread == 1


def test_the_default_is_some_memory_and_enough_for_large_products_where_it_is_free(
    batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 0 < default_memory() <= _ENOUGH
    needed = enough(batch, Architecture({**SIZES.config, "d_vocab": 200_000}))
    assert needed > _ENOUGH
    monkeypatch.setattr(passes, "_free", lambda: 8 * needed)
    assert default_memory("cpu", needed) == needed
    monkeypatch.setattr(passes, "_free", lambda: 4000)
    assert default_memory("cpu", needed, 2) == 500


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


def test_weights_are_folded_once_by_the_first_edit_that_needs_them(
    batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {**SIZES.config, "d_model": 32, "attn_only": True, "normalization_type": None}
    model, fold, folded = models.build(Architecture(sizes, GaussianInit(0.4))), LeanWeights.fold, list[LeanWeights]()

    def counted(weights: LeanWeights) -> LeanWeights:
        folded.append(weights)
        return fold(weights)

    monkeypatch.setattr(LeanWeights, "fold", counted)
    ablations: list[Edit] = [(AblateHead(0, 0),), (AblateHead(1, 0),)]
    hooks = set[str]().union(*(models.hooks_for(model, edit) for edit in ablations))
    rows, _, clean = models.scored_pass(model, batch.tokens, hooks, batch.scored, others=False)
    weights = lean.agreeing_weights(model, clean, rows, batch.scored)
    by_weights, by_hooks = (
        SlicePasses(model, batch, rows, clean, partial(replacement, clean=clean), each) for each in (weights, None)
    )
    assert folded == []
    for edit in ablations:
        torch.testing.assert_close(by_weights.edited([edit])[edit].loss, by_hooks.edited([edit])[edit].loss)
    assert folded == [weights]
