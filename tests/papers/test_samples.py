"""Samples of a head: their effects are those of exact replays, and add up to what a change of all of them does."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from stagewise import models
from stagewise.checkpoints.series import open_series
from stagewise.measurement.probe_batch import load_batch
from stagewise.papers.adjoint import sample_losses
from stagewise.papers.samples import attention_score, attribute_samples, effects_in_words, table_of
from stagewise.probes import AttentionTo
from stagewise.replay import Parent
from stagewise.table import select
from stagewise.training import prepare, train
from tests.fixtures.two_lags import TWO_LAGS

pytestmark = pytest.mark.usefixtures("few_sequences", "unchecked")
QUIET: dict[str, Any] = {"recipe": TWO_LAGS, "progress": False}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    train(TWO_LAGS, folder, progress=False)
    return folder


def test_the_effects_of_an_event_are_told_and_kept_and_shown_with_what_the_head_attends_to(run: Path) -> None:
    found = attribute_samples(run, (0, 0), 1, **QUIET)
    assert found.transition.event == 1
    assert found.transition.begins == found.start < found.stop
    assert len(found.table) == (found.stop - found.start) * TWO_LAGS.plan.batch_size
    pd.testing.assert_frame_equal(pd.read_parquet(run / table_of((0, 0))), found.table)
    assert len(found.shown) == 20
    assert found.shown["value"].iloc[0] == found.table["value"].max()
    assert found.shown["value"].iloc[10] == found.table["value"].min()
    first = found.shown.iloc[0]
    assert first["later"] < 0 < first["value"]
    line = effects_in_words((0, 0), found)[1]
    assert line.startswith(f"step {first['step']}, sample {first['sample']}: +")
    assert f"[{first['tokens'][first['key']]}]" in line
    assert f">{first['tokens'][first['query']]}<" in line


def test_a_larger_weight_of_the_samples_that_helped_raises_attention_by_the_sum_of_their_effects(run: Path) -> None:
    found = attribute_samples(run, (0, 0), 1, start=36, stop=48, **QUIET)
    chosen, weight = found.table.nlargest(40, "value"), 0.02
    training = prepare(TWO_LAGS)

    def loss_at(step: int) -> torch.Tensor:
        losses = sample_losses(training, models.parameters(training.model), training.batch_at(step))
        counts = torch.ones_like(losses)
        counts[chosen["sample"][chosen["step"] == step].to_list()] += weight
        return counts @ losses

    list(training._replace(loss_at=loss_at).steps(0, 48, []))
    batch = load_batch(TWO_LAGS, run)
    relation = str(found.transition.relation)
    after = attention_score(training.model, batch, (0, 0), relation).item()
    models.load(training.model, open_series(run, classes=[type(TWO_LAGS.architecture.init)]).weights(48))
    before = attention_score(training.model, batch, (0, 0), relation).item()
    assert after - before == pytest.approx(weight * chosen["value"].sum(), rel=0.05)


def test_the_score_is_what_the_probe_reads(run: Path) -> None:
    series = open_series(run, classes=[type(TWO_LAGS.architecture.init)])
    training, batch = prepare(TWO_LAGS), load_batch(TWO_LAGS, run)
    models.load(training.model, series.weights(48))
    table = Parent(run, TWO_LAGS).table
    read = select(table, AttentionTo.__name__, "along", relation="far", layer=0, head=0)
    value = float(read[read["step"] == 48]["value"].item())
    assert attention_score(training.model, batch, (0, 0), "far").item() == pytest.approx(value, rel=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((0, 3), None), "there is no head L0H3"),
        (
            ((0, 0), 7),
            r"L0H0 gains no attention in transition 7; those that attention shows: attention to near \(number 1",
        ),
        (((0, 0), 1, 8, 49), r"got steps 8 and 49: give others, or save the second one"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(run: Path, arguments: tuple[Any, ...], message: str) -> None:
    head, event, *steps = arguments
    with pytest.raises(ValueError, match=message):
        attribute_samples(run, head, event, **dict(zip(("start", "stop"), steps, strict=False)), **QUIET)
