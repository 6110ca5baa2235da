"""Entropy over tokens: uniform attention over n tokens has log n nats, however often each occurs."""

import dataclasses
import math
from collections.abc import Callable

import pytest
import torch

from stagewise.architectures import full
from stagewise.checkpoints.series import open_series
from stagewise.measurement.engine import measure
from stagewise.models import build
from stagewise.papers.scan_and_snap.attention_by_token import AttentionByToken
from stagewise.papers.scan_and_snap.growth_factor import GrowthFactor
from stagewise.papers.scan_and_snap.published_data import population_batch
from stagewise.papers.scan_and_snap.token_entropy import TokenEntropy
from stagewise.papers.scan_and_snap.token_recall import TokenRecall
from stagewise.papers.scan_and_snap.yz_hooked import series_of
from stagewise.papers.scan_and_snap.yz_model import YZ, zeros
from stagewise.papers.tasks import syn_small
from stagewise.probe import AbstractProbe, View
from stagewise.table import select
from stagewise.task import Batch

RECORDED = 1e-5
"""Float32 sums; the notes give six decimals."""


def entropies(weights: YZ, batch: Batch) -> dict[str, float]:
    series = series_of("run", [(0, weights)], batch.tokens.shape[1])
    rows = select(measure(series, [TokenEntropy()], batch, progress=False), "TokenEntropy", "entropy")
    return dict(zip(rows["among"], rows["value"], strict=True))


@pytest.mark.hooked_only("a native bridge does not compute with the scores that (Y, Z) edits")
def test_the_law_of_syn_small_has_its_recorded_entropies() -> None:
    found = entropies(zeros(1, 34), population_batch(syn_small()))
    expected = {"all": 2.899287, "distinct": 2.151282, "common": math.log(10)}
    assert found == pytest.approx(expected, abs=RECORDED)


@pytest.mark.hooked_only("a native bridge does not compute with the scores that (Y, Z) edits")
def test_attention_to_one_token_has_no_entropy() -> None:
    weights = zeros(1, 34)
    weights.z[0, :, 5] = 100.0
    found = entropies(weights, population_batch(syn_small()))
    assert found["all"] == pytest.approx(0, abs=RECORDED)
    assert found["common"] == pytest.approx(0, abs=RECORDED)


@pytest.mark.hooked_only("a native bridge does not compute with the scores that (Y, Z) edits")
def test_a_renormalised_entropy_is_that_of_the_conditional_distribution() -> None:
    task, weights = syn_small(), zeros(1, 34)
    weights.z[0] = torch.randn(34, 34, generator=torch.Generator().manual_seed(0))
    expected = []
    for probabilities, query, own in zip(task.distribution(), task.queries, task.distinct_tokens, strict=True):
        c = [(probabilities[l] * math.exp(weights.z[0, query, l])).item() for l in own]  # noqa: E741
        expected.append(-sum(p / sum(c) * math.log(p / sum(c)) for p in c))
    found = entropies(weights, population_batch(task))
    assert found["distinct"] == pytest.approx(sum(expected) / 2, abs=RECORDED)


def test_keys_of_a_token_outside_the_relation_do_not_count(view_of: Callable[..., View]) -> None:
    pattern = torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]]).view(1, 1, 1, 3, 3)
    scored = torch.tensor([[False, False, True]])
    last_two = torch.tensor([False, True, True]).expand(1, 3, 3)
    view = view_of(pattern, {"last two": last_two}, scored)
    batch = dataclasses.replace(view.batch, tokens=torch.tensor([[1, 1, 0]]))
    (reading,) = TokenEntropy().read(dataclasses.replace(view, batch=batch))
    expected = [math.log(2), -(0.375 * math.log(0.375) + 0.625 * math.log(0.625))]
    assert reading.values.flatten().tolist() == pytest.approx(expected, abs=RECORDED)


@pytest.mark.hooked_only("a native bridge does not compute with the scores that (Y, Z) edits")
def test_a_batch_without_relations_has_the_full_entropy_alone() -> None:
    batch = population_batch(syn_small())
    bare = Batch(batch.tokens, batch.targets, batch.scored)
    assert list(entropies(zeros(1, 34), bare)) == ["all"]


@pytest.mark.hooked_only("a native bridge does not compute with the scores that (Y, Z) edits")
def test_an_unknown_relation_is_refused() -> None:
    batch = population_batch(syn_small())
    with pytest.raises(ValueError, match="the batch has no relation 'rare'; it has 'distinct', 'common'"):
        measure(series_of("run", [(0, zeros(1, 34))], 156), [TokenEntropy(("rare",))], batch, progress=False)


@pytest.mark.parametrize(
    "probe",
    [
        AttentionByToken(),
        pytest.param(GrowthFactor("itself"), marks=pytest.mark.hooked_only("a native model has no hook of scores")),
        TokenEntropy(),
        TokenRecall((0.5,), "itself"),
    ],
)
def test_a_probe_that_tells_tokens_apart_refuses_input_vectors(probe: AbstractProbe) -> None:
    itself, last = {"itself": torch.eye(3, dtype=torch.bool).expand(2, -1, -1)}, torch.ones(2, 3, dtype=torch.bool)
    vectors = Batch(torch.zeros(2, 3, 5), torch.zeros(2, 3, 5), last, itself)
    series = open_series([(0, build(full(5, 3, n_heads=2, d_model=8)))])
    with pytest.raises(ValueError, match=f"{type(probe).__name__} tells tokens apart, and this batch holds input vec"):
        measure(series, [probe], vectors, progress=False)
