"""The wired (Y, Z) model: what TransformerLens computes is what the closed forms say."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from stagewise import models
from stagewise.architectures import full
from stagewise.measurement.engine import measure
from stagewise.papers.scan_and_snap.yz_hooked import YZInit, named_weights, ordinary, series_of, yz, yz_of
from stagewise.papers.scan_and_snap.yz_model import YZ, attention, count, forward, zeros
from stagewise.papers.scan_and_snap.yz_training import Rates, train_yz
from stagewise.papers.tasks import SequenceClasses
from stagewise.probe import pattern_hooks
from stagewise.probes import AttentionTo, Loss
from stagewise.recipe import Recipe, TrainPlan
from stagewise.training import train

FLOAT32 = 1e-5
"""Float32 sums of a few dozen terms, and of a few steps."""

TASK = SequenceClasses(2, 2, n_common=2, n_distinct=2, length=9)
RATES = {"unembed.W_U": 0.8, "*.W_Q": 0.4}


def random_weights() -> YZ:
    m = TASK.d_vocab
    return YZ(*torch.randn(2, 1, m, m, generator=torch.Generator().manual_seed(0)).unbind())


@pytest.mark.hooked_only("a native bridge does not compute with the scores that (Y, Z) edits")
def test_log_probabilities_and_attention_are_those_of_the_closed_form() -> None:
    weights, batch = random_weights(), TASK.sample(5, seed=1)
    architecture = yz(TASK.d_vocab, TASK.n_ctx)
    model = models.build(architecture)
    models.load(model, named_weights(weights.y[0], weights.z[0], TASK.n_ctx))
    log_probs, activations = models.clean_pass(model, batch.tokens, pattern_hooks(architecture))
    counts = count(batch, TASK.d_vocab)
    torch.testing.assert_close(log_probs[:, -1], forward(weights, counts)[0], atol=FLOAT32, rtol=0)
    (pattern,) = activations.values()
    by_token = torch.zeros(5, TASK.d_vocab).scatter_add_(1, batch.tokens, pattern[:, 0, -1])
    expected = attention(weights.z, counts.context, counts.query)[0]
    torch.testing.assert_close(by_token, expected, atol=FLOAT32, rtol=0)


@pytest.mark.hooked_only("a native bridge does not compute with the scores that (Y, Z) edits")
def test_ordinary_training_takes_the_steps_of_the_closed_form(tmp_path: Path) -> None:
    plan = TrainPlan(5, 6, "sgd", 0.0, weight_decay=0.0, momentum=0.9, clip=None, rates=RATES)
    series = train(Recipe(TASK, yz(TASK.d_vocab, TASK.n_ctx), plan), tmp_path / "run", progress=False)
    draw = TASK.stream(0)
    moments = train_yz(zeros(1, TASK.d_vocab), lambda now: count(draw(now, 6), TASK.d_vocab), [Rates(0.8, 0.4)], 5)
    for moment in moments:
        found = yz_of(series.weights(moment.step))
        torch.testing.assert_close(found.y, moment.weights.y, atol=FLOAT32, rtol=0)
        torch.testing.assert_close(found.z, moment.weights.z, atol=FLOAT32, rtol=0)
    assert moment.weights.z.abs().max() > 100 * FLOAT32


@pytest.mark.hooked_only("a native bridge does not compute with the scores that (Y, Z) edits")
def test_only_y_and_z_train_and_their_padding_has_no_gradient() -> None:
    model = models.build(yz(TASK.d_vocab, TASK.n_ctx, "uniform"), seed=3)
    batch = TASK.sample(4, seed=0)
    torch.nn.functional.cross_entropy(model(batch.tokens)[:, -1], batch.targets[:, -1]).backward()
    gradients: dict[str, Any] = {name: p.grad for name, p in model.named_parameters() if p.requires_grad}
    assert sorted(gradients) == ["blocks.0.attn.W_Q", "unembed.W_U"]
    m = TASK.d_vocab
    assert not gradients["blocks.0.attn.W_Q"][0, m:].any()
    assert not gradients["unembed.W_U"][:m].any()
    assert gradients["blocks.0.attn.W_Q"].any()


@pytest.mark.hooked_only("a native bridge does not compute with the scores that (Y, Z) edits")
def test_the_uniform_start_is_within_its_bound_and_the_seeds_own() -> None:
    first, again, other = (yz_of(models.weights(models.build(yz(34, 8, "uniform"), seed))) for seed in (1, 1, 2))
    assert torch.equal(first.z, again.z)
    assert not torch.equal(first.z, other.z)
    for matrix in first:
        assert 0.9 * 34**-0.5 < matrix.abs().max() <= 34**-0.5


@pytest.mark.hooked_only("a native bridge does not compute with the scores that (Y, Z) edits")
def test_a_series_in_memory_is_measured_like_any_other() -> None:
    series = series_of("run", [(0, zeros(1, TASK.d_vocab)), (3, random_weights())], TASK.n_ctx)
    table = measure(series, [AttentionTo(), Loss()], TASK.probe_batch(8, 0), progress=False)
    mass = table[(table.quantity == "mass") & (table.step == 3)]
    assert mass["value"].sum() == pytest.approx(1.0, abs=FLOAT32)
    assert set(table["step"]) == {0, 3}


@pytest.mark.slow
def test_the_ordinary_model_trains_on_the_task(tmp_path: Path) -> None:
    plan = TrainPlan(steps=60, batch_size=32, learning_rate=0.02)
    series = train(Recipe(TASK, ordinary(TASK.d_vocab, TASK.n_ctx), plan), tmp_path / "run", progress=False)
    loss = measure(series, [Loss()], TASK.probe_batch(50, 0), progress=False).query("quantity == 'cross_entropy'")
    assert loss["value"].iloc[-1] < 0.3 * loss["value"].iloc[0]


def test_another_config_is_refused() -> None:
    with pytest.raises(ValueError, match=r"YZInit needs one layer of one head, d_head = d_vocab = 4"):
        models.build(dataclasses.replace(full(4, 6), init=YZInit()))
