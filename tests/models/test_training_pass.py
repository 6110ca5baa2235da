"""The training pass against the hooked model: same logits, same gradients, or the model itself."""

import dataclasses
import typing
from typing import Any, cast

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from stagewise import models
from stagewise import models as model
from stagewise.architecture import Architecture
from stagewise.architectures import full, minimal
from stagewise.init import GaussianInit
from stagewise.models import _training_pass as module
from stagewise.models._held_attention import hold
from stagewise.models._training_pass import (
    FirstLayer,
    TrainingPass,
    attended_by_tables,
    causal_attention,
    causal_mask,
    first_layer,
    looked_up,
    training_pass,
)

FLOAT32 = 1e-5
"""Logits of order one, sums in another order."""

FLOAT64 = 1e-10
"""The same in double precision: nothing but rounding is left below it."""

SMALL = {"n_layers": 2, "d_model": 12, "d_head": 4, "n_ctx": 7, "d_vocab": 5, "act_fn": "relu", "d_mlp": 10}
TOKENS = torch.randint(5, (4, 7), generator=torch.Generator().manual_seed(0))
SCORED = {
    "all": torch.ones(4, 7, dtype=torch.bool),
    "the last": torch.arange(7).expand(4, 7) == 6,
    "some": torch.rand(4, 7, generator=torch.Generator().manual_seed(2)) < torch.arange(7) / 6,
}
"""Which predictions count: the last layer computes no others."""

COVERED = {
    f"{norm} {kind} {layers}": {"normalization_type": norm, "n_layers": layers, **change}
    for norm in ("LN", "LNPre", None)
    for kind, change in {"attn-only": {"attn_only": True}, "MLP": {}}.items()
    for layers in (1, 2)
} | {
    "gelu": {"act_fn": "gelu"},
    "silu": {"act_fn": "silu"},
    "own scale": {"attn_scale": 3.0},
    "unscaled scores": {"use_attn_scale": False},
    "positions for queries and keys alone": {"positional_embedding_type": "shortformer"},
    "wide heads": {"n_heads": 5, "d_head": 3},
    "large eps": {"eps": 0.1},
    "other output vocabulary": {"d_vocab_out": 9},
    "more tokens than positions in the batch": {"d_vocab": 40, "normalization_type": None},
}
NOT_COVERED = {
    "rotary": {"positional_embedding_type": "rotary", "rotary_dim": 4},
    "gated": {"gated_mlp": True},
    "grouped queries": {"n_key_value_heads": 1},
    "RMS norm": {"normalization_type": "RMS"},
    "bidirectional": {"attention_dir": "bidirectional"},
    "another gelu": {"act_fn": "gelu_new"},
    "soft cap of the logits": {"output_logits_soft_cap": 30.0},
    "soft cap of the scores": {"attn_scores_soft_cap": 30.0},
}
if model.has_hooked_transformer():  # what transformer-lens 4 would ignore is refused there
    COVERED |= {
        "scores scaled by layer": {"scale_attn_by_inverse_layer_idx": True},
        "unscaled scores by layer": {"use_attn_scale": False, "scale_attn_by_inverse_layer_idx": True},
    }
    NOT_COVERED |= {
        "alibi": {"positional_embedding_type": "alibi"},
        "local attention": {"use_local_attn": True, "window_size": 2, "attn_types": ["local", "local"]},
        "parallel": {"parallel_attn_mlp": True},
        "norm of queries and keys": {"use_qk_norm": True},
    }


def build(change: dict[str, Any]) -> model.Model:
    """A model with every parameter random, biases and norms too."""
    built = model.build(Architecture({**SMALL, **change}, GaussianInit(0.3)))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return built


def fused(built: model.Model, tokens: torch.Tensor = TOKENS, batch_size: int = 4) -> TrainingPass:
    """The pass of a model, with every prediction scored."""
    return training_pass(built, tokens, torch.ones(tokens.shape[:2], dtype=torch.bool), batch_size)


@pytest.mark.one_of(4)
@pytest.mark.each_value
@pytest.mark.parametrize("scored", SCORED.values(), ids=SCORED.keys())
@pytest.mark.parametrize("change", COVERED.values(), ids=COVERED.keys())
def test_the_fused_pass_equals_the_hooked_model(change: dict[str, Any], scored: torch.Tensor) -> None:
    built = build(change)
    forward = fused(built, TOKENS[:1])
    assert forward.name != "hooked"
    logits = built(TOKENS)[scored]
    assert logits.std() > 0.1
    torch.testing.assert_close(forward.predict(TOKENS, scored), logits, atol=FLOAT32, rtol=FLOAT32)


def way_of(forward: TrainingPass) -> str:
    """What its first layer is read from, by its name."""
    return forward.name.removeprefix("fused: ").partition(",")[0]


def gradients(built: model.Model, forward: TrainingPass, tokens: torch.Tensor, scored: torch.Tensor) -> list[Any]:
    weights = [parameter for parameter in built.parameters() if parameter.requires_grad]
    loss = forward.predict(tokens, scored).log_softmax(-1)[..., 0].mean()
    return list(torch.autograd.grad(loss, weights, allow_unused=True))


def assert_same_gradients(
    built: model.Model, forward: TrainingPass, tokens: torch.Tensor, scored: torch.Tensor, tolerance: float
) -> None:
    hooked = TrainingPass("hooked", lambda tokens, scored: built(tokens)[scored])
    by_hooks, by_fusing = (gradients(built, each, tokens, scored) for each in (hooked, forward))
    assert max(float(each.abs().max()) for each in by_hooks if each is not None) > 1e-3
    for one, other in zip(by_hooks, by_fusing, strict=True):
        torch.testing.assert_close(other, one, atol=tolerance, rtol=tolerance)


@pytest.mark.one_of(4)
@pytest.mark.parametrize("change", COVERED.values(), ids=COVERED.keys())
def test_the_fused_pass_has_the_hooked_models_gradients(change: dict[str, Any]) -> None:
    built = build(change)
    assert_same_gradients(built, fused(built, TOKENS[:1]), TOKENS, SCORED["some"], FLOAT32)


@pytest.mark.each_value
@pytest.mark.parametrize("way", typing.get_args(FirstLayer))
@pytest.mark.parametrize("seed", range(8))
def test_any_config_has_the_hooked_models_values_and_gradients(seed: int, way: FirstLayer) -> None:
    draw = np.random.default_rng(seed)
    config = {
        "n_layers": int(draw.integers(1, 4)) if way != "tables to the outputs" else 1,
        "n_heads": int(draw.integers(1, 5)),
        "d_model": int(draw.integers(7, 14)),
        "d_head": int(draw.integers(2, 7)) if "tables" not in way else int(draw.integers(14, 20)),
        "d_mlp": int(draw.integers(3, 9)),
        "d_vocab_out": int(draw.integers(2, 9)),
        "attn_only": way == "tables to the outputs" or bool(draw.integers(2)),
        "normalization_type": None if way != "residual stream" else str(draw.choice(["LN", "LNPre"])),
        "act_fn": str(draw.choice(["relu", "gelu", "silu"])),
    }
    built = build(config)
    normed = config["normalization_type"] is not None
    if not normed:  # TransformerLens computes norms in float32
        cast(torch.nn.Module, built).double()
    tolerance = FLOAT32 if normed else FLOAT64
    tokens = torch.from_numpy(draw.integers(0, 5, (12, int(draw.integers(5, 8)))))
    late = torch.arange(tokens.shape[1]) >= int(draw.integers(3))
    scored = torch.from_numpy(draw.random(tokens.shape) < 0.5) & late
    forward = fused(built, tokens, len(tokens))
    assert way_of(forward) == way
    torch.testing.assert_close(forward.predict(tokens, scored), built(tokens)[scored], atol=tolerance, rtol=tolerance)
    assert_same_gradients(built, forward, tokens, scored, tolerance)


WAYS: dict[FirstLayer, dict[str, Any]] = {
    "residual stream": {},
    "rows": {"normalization_type": None},
    "tables": {"normalization_type": None, "d_head": 14, "n_heads": 2},
    "tables to the outputs": {"normalization_type": None, "d_head": 14, "n_heads": 2, "attn_only": True, "n_layers": 1},
}


@pytest.mark.parametrize("way", typing.get_args(FirstLayer))
@pytest.mark.parametrize("scored", SCORED.values(), ids=SCORED.keys())
def test_heads_that_are_held_after_the_way_was_chosen_are_held_in_it(way: FirstLayer, scored: torch.Tensor) -> None:
    built = build(WAYS[way])
    forward, back = fused(built, batch_size=400), torch.arange(7)[:, None] - torch.arange(7)
    free = forward.predict(TOKENS, scored)
    keys = torch.zeros(built.cfg.n_heads, 7, 7, dtype=torch.bool)
    keys[1] = (back == 2) | (back == 3)
    hold(built, {layer: keys for layer in range(built.cfg.n_layers)})
    assert way_of(forward) == way
    assert (forward.predict(TOKENS, scored) - free).abs().max() > 1e-3
    torch.testing.assert_close(forward.predict(TOKENS, scored), built(TOKENS)[scored], atol=FLOAT32, rtol=FLOAT32)
    assert_same_gradients(built, forward, TOKENS, scored, FLOAT32)


@pytest.mark.parametrize("change", NOT_COVERED.values(), ids=NOT_COVERED.keys())
def test_what_the_fused_pass_does_not_cover_is_left_to_the_model(change: dict[str, Any]) -> None:
    built = build(change)
    forward = fused(built)
    assert forward.name == "hooked"
    assert torch.equal(forward.predict(TOKENS, SCORED["some"]), built(TOKENS)[SCORED["some"]])


def test_the_fused_pass_follows_the_models_parameters() -> None:
    built, everything = build({}), SCORED["all"]
    forward = fused(built)
    before = forward.predict(TOKENS, everything)
    with torch.no_grad():
        model.parameters(built)["unembed.W_U"].mul_(2)
    after = forward.predict(TOKENS, everything)
    assert not torch.equal(after, before)
    torch.testing.assert_close(after, built(TOKENS)[everything], atol=FLOAT32, rtol=FLOAT32)


def test_the_fused_pass_takes_shorter_sequences() -> None:
    built, shorter, scored = build({}), TOKENS[:, :3], SCORED["some"][:, :3]
    torch.testing.assert_close(
        fused(built).predict(shorter, scored), built(shorter)[scored], atol=FLOAT32, rtol=FLOAT32
    )


def test_the_way_is_that_of_the_batch_that_is_trained_on_not_of_the_example() -> None:
    built = build({"normalization_type": None})
    assert way_of(fused(built, TOKENS, batch_size=1)) == "residual stream"
    assert way_of(fused(built, TOKENS[:1], batch_size=400)) == "rows"


FLOAT32_FIRST_LAYER_TABLES = 1e-5
"""Sums of a few dozen numbers of order one, in another order."""


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


TOKENS_FIRST_LAYER_TABLES = torch.randint(4, (3, 6), generator=torch.Generator().manual_seed(1))
W_E, POSITIONS = normal(4, 7, seed=2), normal(6, 7, seed=3)


def test_a_looked_up_product_is_that_of_the_embedded_sequence() -> None:
    weight, bias = normal(5, 7, seed=4), normal(5, seed=5)
    expected = (W_E[TOKENS_FIRST_LAYER_TABLES] + POSITIONS) @ weight.T + bias
    torch.testing.assert_close(
        looked_up(W_E, POSITIONS, TOKENS_FIRST_LAYER_TABLES, weight, bias),
        expected,
        atol=FLOAT32_FIRST_LAYER_TABLES,
        rtol=FLOAT32_FIRST_LAYER_TABLES,
    )


@pytest.mark.parametrize("queries", [1, 4, 6])
def test_attention_by_tables_is_that_of_projected_positions(queries: int) -> None:
    weights = {f"W_{name}": normal(2, 7, 3, seed=ord(name)) for name in "QKV"}
    weights |= {f"b_{name}": normal(2, 3, seed=ord(name) + 1) for name in "QKV"}
    write, x = normal(2, 3, 5, seed=6).requires_grad_(), normal(3, queries, 5, seed=7)
    for weight in weights.values():
        weight.requires_grad_()
    rows = torch.cat([W_E, POSITIONS])
    q, k, v = (
        torch.einsum("bpm,hmd->bhpd", W_E[TOKENS_FIRST_LAYER_TABLES] + POSITIONS, weights[f"W_{name}"])
        + weights[f"b_{name}"][:, None]
        for name in "QKV"
    )
    later = torch.ones(6, 6, dtype=torch.bool).triu(1)
    pattern = (q @ k.transpose(-1, -2) / 1.3).masked_fill(later, -torch.inf).softmax(-1)
    expected = x + torch.einsum("bhqk,bhkd,hdo->bqo", pattern, v, write)[:, 6 - queries :]
    found = attended_by_tables(x, rows, TOKENS_FIRST_LAYER_TABLES, weights, write, 1.3)
    torch.testing.assert_close(found, expected, atol=FLOAT32_FIRST_LAYER_TABLES, rtol=FLOAT32_FIRST_LAYER_TABLES)
    of_each = [write, *weights.values()]
    gradients = (torch.autograd.grad((each**2).mean(), of_each) for each in (found, expected))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, atol=FLOAT32_FIRST_LAYER_TABLES, rtol=10 * FLOAT32_FIRST_LAYER_TABLES)


def chosen(architecture: Architecture, batch_size: int = 512, **change: Any) -> str:
    config = {**architecture.config, **change}
    cfg = models.build(dataclasses.replace(architecture, config=config, init=Architecture(config).init)).cfg
    return first_layer(cfg, cfg.n_ctx, batch_size)


def test_tables_are_taken_where_they_are_narrower_than_the_projections() -> None:
    wired = minimal(24, 21)
    assert chosen(wired) == "tables to the outputs"
    assert chosen(wired, n_layers=2, d_model=40) == "tables"
    assert chosen(wired, n_layers=2) == "rows"  # it writes more numbers than a head has
    assert chosen(wired, d_head=22) == "rows"
    assert chosen(wired, batch_size=11) == "residual stream"
    assert chosen(full(16, 20)) == "residual stream"  # with norms


FLOAT32_CAUSAL_ATTENTION = 1e-5
"""Sums of a few dozen numbers of order one, in another order."""


@pytest.mark.parametrize("short", [0, 10_000], ids=["kernel", "products"])
@pytest.mark.parametrize("queries", [1, 3, 9])
def test_the_last_queries_see_the_keys_up_to_their_own_position(
    queries: int, short: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SHORT", short)
    q, k, v = torch.randn(3, 2, 4, 9, 5, generator=torch.Generator().manual_seed(0))
    z = causal_attention(q[:, :, 9 - queries :], k, v, scale=1.7)
    for position in range(9 - queries, 9):
        scores = (k[:, :, : position + 1] * q[:, :, position : position + 1]).sum(-1) / 1.7
        expected = (scores.softmax(-1)[..., None] * v[:, :, : position + 1]).sum(2)
        torch.testing.assert_close(
            z[:, :, position - 9], expected, atol=FLOAT32_CAUSAL_ATTENTION, rtol=FLOAT32_CAUSAL_ATTENTION
        )


def test_the_way_depends_on_the_shape_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    kernel = F.scaled_dot_product_attention

    def counted(q: torch.Tensor, *rest: Any, **named: Any) -> torch.Tensor:
        taken.append(len(q))
        return kernel(q, *rest, **named)

    monkeypatch.setattr(F, "scaled_dot_product_attention", counted)
    for batch, width in [(1, 80), (1, 81), (8, 80), (8, 81)]:
        q, k, v = torch.randn(3, batch, 1, 10, width)
        causal_attention(q, k, v, scale=1.0)
    assert taken == [1, 8]


def test_a_mask_made_in_inference_mode_serves_training() -> None:
    q, k, v = torch.randn(3, 2, 1, 13, 90)  # wide enough for torch's kernel, which saves the mask
    last = q[:, :, 6:].clone().requires_grad_()
    with torch.inference_mode():
        expected = causal_attention(q[:, :, 6:], k, v, scale=1.0).clone()
    z = causal_attention(last, k, v, scale=1.0)
    z.sum().backward()
    torch.testing.assert_close(z.detach(), expected)
    assert last.grad is not None


def test_the_mask_hides_the_keys_that_come_later() -> None:
    hidden = causal_mask(2, 3, torch.device("cpu"), torch.float32)
    assert hidden.tolist() == [[0, 0, -torch.inf], [0, 0, 0]]
