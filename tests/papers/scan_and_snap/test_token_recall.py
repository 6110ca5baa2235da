"""Recall against a threshold: the share of a relation's tokens, each counted once, above it."""

import pytest
import torch

from stagewise.measurement.engine import measure
from stagewise.papers.scan_and_snap._synthetic import final_scores, recall
from stagewise.papers.scan_and_snap.published_data import population_batch, vocabulary_batch
from stagewise.papers.scan_and_snap.token_recall import TokenRecall
from stagewise.papers.scan_and_snap.yz_hooked import series_of
from stagewise.papers.scan_and_snap.yz_model import YZ, zeros
from stagewise.papers.tasks import syn_medium, syn_small
from stagewise.table import select
from stagewise.task import Batch

FLOAT32 = 1e-6


def found(weights: YZ, batch: Batch, thresholds: tuple[float, ...]) -> list[float]:
    series = series_of("run", [(0, weights)], batch.tokens.shape[1])
    table = measure(series, [TokenRecall(thresholds)], batch, progress=False)
    return select(table, "TokenRecall", "recall")["value"].tolist()


@pytest.mark.hooked_only("a native bridge does not compute with the scores that (Y, Z) edits")
def test_tokens_above_the_threshold_are_counted_once_each() -> None:
    task = syn_small()
    shares = found(zeros(1, 34), population_batch(task), (0.5 / 155, 3.5 / 155, 9.5 / 155, 10.5 / 155))
    assert shares == pytest.approx([1.0, 0.7, 0.1, 0.0], abs=FLOAT32)


@pytest.mark.hooked_only("a native bridge does not compute with the scores that (Y, Z) edits")
def test_the_vocabulary_batch_gives_the_recall_of_figures_11_and_12() -> None:
    task = syn_medium(3)
    z = torch.randn(1, task.d_vocab, task.d_vocab, generator=torch.Generator().manual_seed(1))
    thresholds = (0.005, 0.0127, 0.02)
    shares = found(YZ(torch.zeros_like(z), z), vocabulary_batch(task), thresholds)
    assert shares == pytest.approx(recall(task, z, thresholds)[0].tolist(), abs=FLOAT32)
    assert 0 < shares[1] < 1


@pytest.mark.hooked_only("a native bridge does not compute with the scores that (Y, Z) edits")
def test_a_trained_model_has_recall_between_its_start_and_none() -> None:
    task = syn_medium(1)
    pairs, z = final_scores(1, seed=1)
    shares = found(YZ(torch.zeros_like(z[:1]), z[:1]), vocabulary_batch(task), (0.02, 0.03, 0.5))
    assert pairs[0] == (0.5, 0.5)
    assert shares == sorted(shares, reverse=True)
    assert shares == pytest.approx(recall(task, z[:1], (0.02, 0.03, 0.5))[0].tolist(), abs=FLOAT32)


@pytest.mark.hooked_only("a native bridge does not compute with the scores that (Y, Z) edits")
def test_thresholds_and_relations_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match=r"between 0 and 1, at least one; got \(1\.5,\)"):
        TokenRecall((1.5,))
    with pytest.raises(ValueError, match="got \\(\\)"):
        TokenRecall(())
    batch = population_batch(syn_small())
    nothing = Batch(batch.tokens, batch.targets, batch.scored, {"distinct": batch.relations["distinct"] & False})
    with pytest.raises(ValueError, match="2 scored queries have no key of the relation 'distinct'"):
        found(zeros(1, 34), nothing, (0.1,))
