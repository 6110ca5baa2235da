"""Probe batches: no sequence is dropped for a relation that it does not have, and what is left out is said."""

from pathlib import Path

import pytest
import torch

import stagewise
from stagewise import models
from stagewise.architectures import full
from stagewise.measurement.engine import measure
from stagewise.measurement.probe_batch import _FEWEST, _MORE, _sampled_batch, usable
from stagewise.probes import AttentionProgress, AttentionTo, HeadSpecialisation, Loss, PatternClusters
from stagewise.task import Batch
from stagewise.tasks.tokens import Tokens
from stagewise.text.token_relations import RELATIONS

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
    batch, notes = _sampled_batch(task_of(30, 200, tmp_path), 200, seed=0)
    assert (len(batch), list(batch.relations)) == (200, list(RELATIONS))
    assert notes == (
        "measured on 200 of 200 sequences",
        "'duplicate token' and 'induction' in 30 of 200 sequences: averaged over these",
    )


def test_a_relation_of_too_few_sequences_is_left_out_and_said_to_be(tmp_path: Path) -> None:
    batch, notes = _sampled_batch(task_of(3, 200, tmp_path), 200, seed=0)
    assert (len(batch), list(batch.relations)) == (200, ["previous token", "first token", "self"])
    assert notes[1:] == ("'duplicate token' and 'induction' in 3 of 200 sequences: too few, left out",)


def test_how_many_of_how_many_sequences_are_measured_is_said(tmp_path: Path) -> None:
    task = task_of(20, 20, tmp_path)
    assert _sampled_batch(task, 8, seed=0).notes == (f"measured on 8 of 20 sequences: {_MORE}",)
    assert _sampled_batch(task, 8, seed=0, asked=True).notes == ("measured on 8 of 20 sequences",)
    assert _sampled_batch(task, 99, seed=0).notes == ("measured on 20 of 20 sequences",)
    with pytest.raises(ValueError, match="at least one sequence, got sequences=0"):
        _sampled_batch(task, 0, seed=0)


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


@pytest.mark.one_of(2)
@pytest.mark.parametrize("memory", [None, 1])
def test_a_relation_is_measured_as_on_its_own_sequences_alone(memory: int | None) -> None:
    series = stagewise.open_series([(0, models.build(full(VOCABULARY, LENGTH, n_layers=2)))])
    tokens = tokens_with(20, 40)
    probes = [AttentionTo(), AttentionProgress(), HeadSpecialisation(), PatternClusters(), Loss()]
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
