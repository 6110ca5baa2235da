"""The layout of transformer-lens 4's own models, and a HookedTransformer's: written out by hand, there and back."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.init import Config
from stagewise.loss import squared_error, training_loss
from stagewise.measurement.engine import measure
from stagewise.models import _native as native
from stagewise.models._training_pass import training_pass
from stagewise.papers.linear_init import LinearInit
from stagewise.papers.position_heads import position_heads
from stagewise.papers.tasks import MarkovRegression, SparseRegression
from stagewise.probes import (
    AttentionTo,
    HeadAblation,
    InContextLearning,
    KLToReference,
    Loss,
    LossAgainstReferences,
    LossByPosition,
    OffsetProfile,
    RestrictedContextKL,
)
from stagewise.recipe import Recipe, TrainPlan, describe, rebuild
from stagewise.table import select
from stagewise.training import train

SMALL = {"n_layers": 1, "d_model": 6, "d_head": 4, "n_heads": 3, "n_ctx": 5, "d_vocab": 7, "act_fn": "relu", "d_mlp": 5}


def config(**change: object) -> Config:
    return models.build(Architecture({**SMALL, **change})).cfg


def test_the_rows_of_a_query_matrix_are_the_dimensions_of_its_heads_one_head_after_another() -> None:
    weight = torch.randn(12, 6, generator=torch.Generator().manual_seed(0))
    ours = native.hooked("blocks.0.attn.W_Q", weight, config())
    assert ours.shape == (3, 6, 4)
    for head in range(3):
        for dimension in range(4):
            assert torch.equal(ours[head, :, dimension], weight[4 * head + dimension])


def test_rotary_pairs_that_are_adjacent_there_are_two_halves_here() -> None:
    bias = torch.arange(12.0)
    rotary = config(positional_embedding_type="rotary", rotary_dim=4)
    assert native.hooked("blocks.0.attn.b_Q", bias, rotary)[0].tolist() == [0, 2, 1, 3]
    assert native.hooked("blocks.0.attn.b_V", bias, rotary)[0].tolist() == [0, 1, 2, 3]
    assert native.hooked("blocks.0.attn.b_Q", bias, config())[0].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("positions", ["standard", "rotary"])
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("W_Q", (12, 6)),
        ("W_V", (12, 6)),
        ("b_K", (12,)),
        ("W_O", (6, 12)),
        ("W_in", (5, 6)),
        ("W_U", (7, 6)),
        ("w", (6,)),
    ],
)
def test_there_and_back_is_the_same_weight(name: str, shape: tuple[int, ...], positions: str) -> None:
    cfg = config(positional_embedding_type=positions, **({"rotary_dim": 4} if positions == "rotary" else {}))
    weight = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    assert torch.equal(native.unhooked(name, native.hooked(name, weight, cfg), cfg), weight)


def test_a_weight_of_another_width_of_heads_is_refused_by_its_name() -> None:
    with pytest.raises(ValueError, match=r"blocks.0.attn.W_Q has the shape \(11, 6\), with d_head = 4"):
        native.hooked("blocks.0.attn.W_Q", torch.zeros(11, 6), config())


@pytest.mark.parametrize(
    "field", [{"positional_embedding_type": "alibi"}, {"use_local_attn": True}, {"parallel_attn_mlp": True}], ids=str
)
def test_what_would_be_ignored_is_refused_and_what_changes_nothing_is_dropped(field: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"take\s+transformer-lens 3.9"):
        native.supported_fields({**SMALL, **field})
    assert native.supported_fields({**SMALL, "model_name": "mine", "seed": 3, "use_attn_scale": True}) == SMALL


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
    everything = torch.ones(2, 5, dtype=torch.bool)
    fused = training_pass(model, vectors, everything, 2).predict(vectors, everything)
    assert torch.allclose(fused, model(tokens).flatten(0, 1), atol=1e-5)


def test_every_hook_fires_on_vectors_and_edits_count() -> None:
    model, batch = models.build(ARCHITECTURE), TASK.sample(4, seed=0)
    with torch.no_grad():
        outputs, cache = model.run_with_cache(batch.tokens, names_filter=lambda name: True)
        tokens = torch.zeros(4, 5, dtype=torch.int64)
        _, tokens_cache = model.run_with_cache(tokens, names_filter=lambda name: True)
        assert set(cache) == set(tokens_cache)
        assert torch.allclose(cache["hook_embed"], batch.tokens @ models.parameters(model)["embed.W_E"])
        silenced = model.run_with_hooks(batch.tokens, fwd_hooks=[("hook_embed", lambda value, hook: 0 * value)])
    assert outputs.shape == (4, 5, 3)
    assert not torch.allclose(silenced, outputs)


def test_the_fused_pass_is_taken_and_gives_the_models_values() -> None:
    model, batch = models.build(ARCHITECTURE), TASK.sample(4, seed=0)
    fused = training_pass(model, batch.tokens, batch.scored, 4)
    assert fused.name.startswith("fused: residual stream")
    predictions = model(batch.tokens)[batch.scored]
    assert torch.allclose(fused.predict(batch.tokens, batch.scored), predictions, atol=1e-5)


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


def test_every_probe_of_losses_and_divergences_reads_a_regression() -> None:
    """Heads that read lags 1 and 2 alone, of a target of three lags: all that is left is a sum of squares."""
    task = MarkovRegression(dim=3, spans=(1, 1, 1), n_lags=4, importance=2.0)
    attend = tuple(tuple(50.0 if 3 - position == head else 0.0 for position in range(4)) for head in range(2))
    made = position_heads(3, 4, 2, attend)
    state, features = models.weights(models.build(made)), task.feature_matrices()
    for head in range(2):
        state["blocks.0.attn.W_O"][head, :3, -3:] = features[head].T
    batch = task.probe_batch(4000, seed=0)
    series = CheckpointSeries("run", made, (0,), lambda step: state)
    probes = [
        RestrictedContextKL((1, 2)), HeadAblation(kinds=("zero",)), KLToReference(), LossAgainstReferences(),
        LossByPosition(), InContextLearning(early=2, late=3),
    ]  # fmt: skip
    with pytest.raises(ValueError, match="targets at its scored positions alone, positions 2 and 3 are not"):
        measure(series, probes, batch, progress=False)
    table = measure(series, probes[:-1], batch, progress=False)
    squares = dict(zip((1, 2, 3), (16 / 2, 4 / 2, 1 / 2), strict=True))  # half the squared norms of A*_1, A*_2, A*_3

    def value(probe: str, quantity: str, **axes: object) -> float:
        found: float = select(table, probe, quantity, **axes)["value"].item()
        return found

    sampling: dict[str, Any] = {"rel": 0.08}
    assert value("LossByPosition", "squared_error", position=3) == pytest.approx(squares[3], **sampling)
    # A head whose position lies outside the context attends to the last one alone, with its map of another lag.
    assert value("RestrictedContextKL", "kl", context=1) == pytest.approx(2 * squares[2], **sampling)
    assert value("RestrictedContextKL", "kl", context=2) == pytest.approx(0, abs=1e-6)
    for head in (0, 1):
        axes = {"layer": 0, "head": head, "kind": "zero", "control": "head"}
        assert value("HeadAblation", "kl", **axes) == pytest.approx(squares[head + 1], **sampling)
        assert value("HeadAblation", "loss_change", **axes) == pytest.approx(squares[head + 1], **sampling)
    distances = {"zero": squares[1] + squares[2], "A*_1": squares[2], "A*_1:2": 0.0, "A*_1:3": squares[3]}
    for name, distance in distances.items():
        assert value("KLToReference", "kl", reference=name) == pytest.approx(distance, abs=1e-6, **sampling)
        gap = {"zero": -squares[1] - squares[2], "A*_1": -squares[2], "A*_1:2": 0.0, "A*_1:3": squares[3]}[name]
        assert value("LossAgainstReferences", "gap", reference=name) == pytest.approx(gap, abs=1e-5, **sampling)
    ends = [value("LossAgainstReferences", "squared_error", reference=name) for name in ("zero", "A*_1:3")]
    assert ends == pytest.approx([sum(squares.values()), 0], abs=1e-6, **sampling)


def test_the_recipe_survives_run_json() -> None:
    recipe = Recipe(TASK, ARCHITECTURE)
    assert rebuild(describe(recipe), [SparseRegression]) == recipe


def test_the_loss_of_vectors_is_half_the_squared_error_and_of_tokens_cross_entropy() -> None:
    outputs = torch.tensor([[1.0, 2.0], [0.0, 0.0]])
    assert squared_error(outputs, torch.zeros(2, 2)).tolist() == [2.5, 0]
    assert training_loss(outputs, torch.zeros(2, 2)).item() == 1.25
    expected = (math.log1p(math.exp(-1)) + math.log(2)) / 2
    assert training_loss(outputs, torch.tensor([1, 0])).item() == pytest.approx(expected)
