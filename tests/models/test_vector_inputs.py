"""Vectors in place of tokens: through the model with all hooks, the fused pass, training and probes."""

import math
from pathlib import Path

import pytest
import torch

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.init import LinearInit
from stagewise.loss import squared_error, training_loss
from stagewise.measurement.engine import measure
from stagewise.models.fused import training_forward
from stagewise.probes import AttentionTo, Loss, OffsetProfile
from stagewise.recipe import Recipe, TrainPlan, describe, rebuild
from stagewise.tasks import SparseRegression
from stagewise.training import train

TASK = SparseRegression(n_positions=5, d=3, positions="random", marked=True)
ARCHITECTURE = Architecture(
    {
        "n_layers": 2,
        "n_heads": 2,
        "d_model": 8,
        "d_head": 4,
        "d_mlp": 16,
        "act_fn": "gelu",
        "n_ctx": 5,
        "d_vocab": 4,
        "d_vocab_out": 3,
        "normalization_type": None,
    },
    LinearInit(),
)


def test_a_one_hot_vector_is_its_token() -> None:
    model = models.build(ARCHITECTURE)
    tokens = torch.tensor([[0, 3, 1, 2, 2], [1, 1, 0, 3, 2]])
    vectors = torch.nn.functional.one_hot(tokens, 4).float()
    assert torch.allclose(model(vectors), model(tokens), atol=1e-6)
    assert torch.allclose(training_forward(model, vectors)(vectors), model(tokens), atol=1e-5)


def test_every_hook_fires_on_vectors_and_edits_count() -> None:
    model, batch = models.build(ARCHITECTURE), TASK.sample(4, seed=0)
    with torch.no_grad():
        outputs, cache = model.run_with_cache(batch.tokens)
        tokens_cache = model.run_with_cache(torch.zeros(4, 5, dtype=torch.int64))[1]
        assert set(cache) == set(tokens_cache)
        assert torch.allclose(cache["hook_embed"], batch.tokens @ model.embed.W_E)
        silenced = model.run_with_hooks(batch.tokens, fwd_hooks=[("hook_embed", lambda value, hook: 0 * value)])
    assert outputs.shape == (4, 5, 3)
    assert not torch.allclose(silenced, outputs)


def test_the_fused_pass_is_taken_and_gives_the_models_values() -> None:
    model, vectors = models.build(ARCHITECTURE), TASK.sample(4, seed=0).tokens
    fused = training_forward(model, vectors)
    assert fused is not model
    assert torch.allclose(fused(vectors), model(vectors), atol=1e-5)


def test_a_regression_trains_and_its_probes_read_outputs(tmp_path: Path) -> None:
    plan = TrainPlan(steps=4, batch_size=8, learning_rate=1e-3, weight_decay=0.0, clip=None, save=(2,))
    series = train(Recipe(TASK, ARCHITECTURE, plan), tmp_path / "run", progress=False)
    batch = TASK.probe_batch(16, seed=0)
    table = measure(series, [Loss(), AttentionTo(), OffsetProfile()], batch, progress=False)
    model = models.build(ARCHITECTURE)
    models.load(model, series.weights(4))
    with torch.no_grad():
        expected = ((model(batch.tokens)[:, -1] - batch.targets[:, -1]) ** 2).sum(-1).mean() / 2
    found = table[(table["quantity"] == "squared_error") & (table["step"] == 4)]["value"].item()
    assert found == pytest.approx(expected.item(), rel=1e-5)
    assert set(table["probe"]) == {"Loss", "AttentionTo", "OffsetProfile"}


def test_the_recipe_survives_run_json() -> None:
    recipe = Recipe(TASK, ARCHITECTURE)
    assert rebuild(describe(recipe), [SparseRegression]) == recipe


def test_the_loss_of_vectors_is_half_the_squared_error_and_of_tokens_cross_entropy() -> None:
    outputs = torch.tensor([[1.0, 2.0], [0.0, 0.0]])
    assert squared_error(outputs, torch.zeros(2, 2)).tolist() == [2.5, 0]
    assert training_loss(outputs, torch.zeros(2, 2)).item() == 1.25
    expected = (math.log1p(math.exp(-1)) + math.log(2)) / 2
    assert training_loss(outputs, torch.tensor([1, 0])).item() == pytest.approx(expected)


def test_linear_init_has_pytorchs_ranges_and_fixed_sinusoids() -> None:
    model = models.build(ARCHITECTURE, seed=3)
    for name, fan_in in (("embed.W_E", 4), ("blocks.0.attn.W_Q", 8), ("blocks.1.mlp.W_out", 16), ("unembed.b_U", 8)):
        weights = models.parameters(model)[name]
        assert 0.5 * fan_in**-0.5 < weights.abs().max().item() <= fan_in**-0.5
    positions = models.parameters(model)["pos_embed.W_pos"]
    assert not positions.requires_grad
    assert positions[0].tolist() == pytest.approx([0, 1] * 4)
    assert positions[2, 4].item() == pytest.approx(math.sin(2 / 10_000 ** (4 / 8)))
    assert models.weights(models.build(ARCHITECTURE, seed=4))["embed.W_E"].std() > 0
    with pytest.raises((ValueError, TypeError), match="embedding"):
        LinearInit("sparse")  # type: ignore[arg-type]
