"""Probe batches: no sequence is dropped for a relation that it does not have, and what is left out is said."""

import dataclasses
from pathlib import Path

import pytest
import torch

import stagewise
from stagewise import models
from stagewise.architectures import full
from stagewise.checkpoints.series import open_series
from stagewise.measurement.engine import measure
from stagewise.measurement.probe_batch import (
    _FEWEST,
    _MORE,
    THE_BASE,
    _restricted_log_probs,
    _sampled_batch,
    batch_of_run,
    parted,
    series_batch,
    usable,
)
from stagewise.probes import AttentionTo, HeadSpecialisation, KLToReference, Loss, PatternClusters
from stagewise.recipe import Recipe, TrainPlan
from stagewise.table import select
from stagewise.task import Batch
from stagewise.tasks import RepeatedTokens
from stagewise.tasks.tokens import Tokens
from stagewise.tasks.windows import restricted_recipe
from stagewise.text.token_relations import RELATIONS
from stagewise.training import train

VOCABULARY, LENGTH = 31, 8


def tokens_with(repeats: int, sequences: int) -> torch.Tensor:
    """Different tokens, and in the first sequences one of them twice."""
    order = torch.rand(sequences, VOCABULARY, generator=torch.Generator().manual_seed(0)).argsort(1)[:, :LENGTH]
    order[:repeats, 5] = order[:repeats, 2]
    return order


def task_of(repeats: int, sequences: int, folder: Path) -> Tokens:
    torch.save(tokens_with(repeats, sequences), folder / "t.pt")
    return Tokens(str(folder / "t.pt"), LENGTH - 1)


def test_sequences_without_a_relation_are_measured_too(tmp_path: Path) -> None:
    batch, notes = _sampled_batch(task_of(30, 200, tmp_path), None, 200, seed=0)
    assert (len(batch), list(batch.relations)) == (200, list(RELATIONS))
    assert notes == (
        "measured on 200 of 200 sequences",
        "'duplicate token' and 'induction' in 30 of 200 sequences: averaged over these",
    )


def test_a_relation_of_too_few_sequences_is_left_out_and_said_to_be(tmp_path: Path) -> None:
    batch, notes = _sampled_batch(task_of(3, 200, tmp_path), None, 200, seed=0)
    assert (len(batch), list(batch.relations)) == (200, ["previous token", "first token", "self"])
    assert notes[1:] == ("'duplicate token' and 'induction' in 3 of 200 sequences: too few, left out",)


def test_how_many_of_how_many_sequences_are_measured_is_said(tmp_path: Path) -> None:
    task = task_of(20, 20, tmp_path)
    assert _sampled_batch(task, None, 8, seed=0).notes == (f"measured on 8 of 20 sequences: {_MORE}",)
    assert _sampled_batch(task, 8, 99, seed=0).notes == ("measured on 8 of 20 sequences",)
    assert _sampled_batch(task, None, 99, seed=0).notes == ("measured on 20 of 20 sequences",)
    with pytest.raises(ValueError, match="at least one sequence, got sequences=0"):
        _sampled_batch(task, 0, 8, seed=0)


@pytest.mark.parametrize(("repeats", "sequences"), [(_FEWEST - 1, 20), (1, 3)])
def test_the_half_of_few_sequences_is_enough(repeats: int, sequences: int) -> None:
    batch = Batch.from_tokens(tokens_with(repeats, sequences))
    assert "induction" not in usable(batch).relations
    assert "induction" in usable(Batch.from_tokens(tokens_with(repeats + 1, sequences))).relations


def test_sequences_without_a_scored_prediction_are_left_out() -> None:
    scored = torch.zeros(4, LENGTH - 1, dtype=torch.bool)
    batch = Batch.from_tokens(tokens_with(0, 4), scored=scored)
    assert len(usable(batch)) == 4  # none is scored: all are kept, and measuring says why it does not
    scored[[0, 2], 3] = True
    assert len(usable(batch)) == 2


def test_relations_that_agree_in_every_sequence_are_one_of_both_names() -> None:
    batch = Batch.from_tokens(tokens_with(20, 40))
    doubled = dataclasses.replace(batch, relations={**batch.relations, "before": batch.relations["previous token"]})
    told, (note,) = parted(doubled)
    assert list(told.relations) == ["previous token or before", *list(batch.relations)[1:]]
    assert note.startswith("'previous token' and 'before' are the same keys in every sequence: told as one")
    heads = measure(
        stagewise.open_series([(0, models.build(full(VOCABULARY, LENGTH)))]), [AttentionTo()], told, progress=False
    )
    assert set(heads["relation"]) == set(told.relations)


def test_relations_that_agree_in_all_sequences_but_one_stay_two() -> None:
    batch = Batch.from_tokens(tokens_with(20, 40))
    other = batch.relations["previous token"].clone()
    other[7, 3] = batch.relations["first token"][7, 3]
    told, notes = parted(dataclasses.replace(batch, relations={**batch.relations, "before": other}))
    assert (list(told.relations), notes) == ([*batch.relations, "before"], ())


@pytest.mark.one_of(2)
@pytest.mark.parametrize("memory", [None, 1])
def test_a_relation_is_measured_as_on_its_own_sequences_alone(memory: int | None) -> None:
    series = stagewise.open_series([(0, models.build(full(VOCABULARY, LENGTH, n_layers=2)))])
    tokens = tokens_with(20, 40)
    probes = [AttentionTo(), HeadSpecialisation(), PatternClusters(), Loss()]
    table, alone = (
        measure(series, probes, Batch.from_tokens(each), memory=memory, progress=False)
        for each in (tokens, tokens[:20])
    )
    rows, expected = (
        each[(each["relation"] == "induction") & (each["quantity"] != "share")] for each in (table, alone)
    )
    assert rows["value"].tolist() == pytest.approx(expected["value"].tolist(), abs=1e-6)
    assert set(rows["n"].dropna()) == {20}
    assert set(table.loc[table["probe"] == "Loss", "n"]) == {40}


TASK = RepeatedTokens(16, length=8)
PLAN = TrainPlan(steps=3, batch_size=4)
RECIPE = Recipe(TASK, full(16, TASK.n_ctx, n_heads=2, d_model=8, d_mlp=8), PLAN)


@pytest.mark.parametrize("context", [2, 5])
def test_a_baseline_says_what_it_says_of_the_last_tokens_alone(context: int, tmp_path: Path) -> None:
    series = train(restricted_recipe(RECIPE, context), tmp_path / "run", progress=False)
    batch = dataclasses.replace(TASK.probe_batch(3, seed=0), references={})
    everywhere = dataclasses.replace(batch, scored=torch.ones_like(batch.scored))
    log_probs = _restricted_log_probs(series, everywhere)
    model = models.build(series.architecture)
    models.load(model, series.weights(3))
    for query in range(TASK.n_ctx):
        start = max(0, query + 1 - context)
        alone, _ = models.clean_pass(model, batch.tokens[:, start : query + 1], hooks=())
        torch.testing.assert_close(log_probs[:, query], alone[:, -1], atol=1e-5, rtol=0)


def test_slices_of_the_batch_give_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    series = train(restricted_recipe(RECIPE, 2), tmp_path / "run", progress=False)
    batch = TASK.probe_batch(5, seed=0)
    whole = _restricted_log_probs(series, batch)
    monkeypatch.setattr("stagewise.measurement.probe_batch._NUMBERS", 1)
    torch.testing.assert_close(_restricted_log_probs(series, batch), whole, atol=1e-5, rtol=0)


def test_baselines_stand_before_the_references_with_their_context(tmp_path: Path) -> None:
    train(restricted_recipe(RECIPE, 2), tmp_path / "restricted" / "2", progress=False)
    batch, _ = batch_of_run(RECIPE, tmp_path)
    assert next(iter(batch.references)) == "trained c=2"
    assert (batch.contexts, batch.nested) == ({"trained c=2": 2}, ())


def test_what_a_post_training_began_from_is_a_reference_of_its_batch(tmp_path: Path) -> None:
    architecture = full(n_layers=1, n_heads=2, d_vocab=VOCABULARY, n_ctx=2 * LENGTH)
    draws = [models.build(architecture, seed) for seed in range(3)]
    base, near, far = (models.weights(model) for model in draws)
    near = {name: weight + 0.01 * near[name] for name, weight in base.items()}
    series = open_series([(1, near), (2, far)], start=[(0, base)], architecture=architecture.config)
    batch = series_batch(series)
    assert THE_BASE in batch.references
    assert THE_BASE not in batch.nested_references
    kl = select(measure(series, [KLToReference((THE_BASE,))], batch, progress=False), "KLToReference", "kl")
    first, second, third = kl.sort_values("step")["value"]
    assert first == pytest.approx(0, abs=1e-6)
    assert 1e-6 < second < third
    later = series_batch(series[1:])
    assert torch.equal(later.references[THE_BASE], batch.references[THE_BASE])


@pytest.mark.parametrize("apart", [False, True])
def test_a_repetition_at_one_distance_is_said_to_be_no_test_of_induction(apart: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    orders = [torch.randperm(64, generator=generator) for _ in range(16)]
    gaps = [2 * (row % 4) if apart else 0 for row in range(16)]
    tokens = [torch.cat([order[: 8 + gap], order[: 16 - gap]]) for order, gap in zip(orders, gaps, strict=True)]
    _, notes = parted(Batch.from_tokens(torch.stack(tokens)[:, :16], ["previous token", "induction"]))
    assert [note.partition(":")[0] for note in notes] == ([] if apart else ["'induction' is mostly 7 tokens back"])
