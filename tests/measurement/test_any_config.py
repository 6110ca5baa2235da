"""Configs drawn at random: lean passes, hooks and slices of one sequence agree, and TransformerLens with them.

The reference is TransformerLens alone, in float64. The default suite draws a few, `make slow` more.
"""

import math
import random
from collections.abc import Mapping
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.checkpoints.series import CheckpointSeries, State
from stagewise.measurement.engine import measure
from stagewise.probe import AbstractProbe
from stagewise.probes import AttentionTo, DirectLogitAttribution, HeadAblation, LogitLens, Loss, RestrictedContextKL
from stagewise.table import select
from stagewise.task import Batch
from tests.models.conftest import HOOKED

pytestmark = [pytest.mark.usefixtures("unchecked"), pytest.mark.skipif(not HOOKED, reason="a HookedTransformer's")]

SAME = 2e-4
"""Float32 sums in another order, over the largest value of a quantity."""

FAST = (1, 2, 8)
SEEDS = [pytest.param(seed, marks=[] if seed in FAST else pytest.mark.slow) for seed in range(60)]


def drawn(draw: random.Random) -> dict[str, Any]:
    """A config of any kind whose attention is causal."""
    d_head, n_heads, n_layers = draw.choice([2, 4, 6]), draw.choice([1, 2, 4]), draw.choice([1, 2, 3])
    config: dict[str, Any] = {
        **{"n_layers": n_layers, "n_heads": n_heads, "d_head": d_head, "d_model": draw.choice([5, 8, 12])},
        **{"d_vocab": 7, "d_mlp": 9, "act_fn": draw.choice(["relu", "gelu", "silu", "gelu_new", "solu_ln", "relu2"])},
        "positional_embedding_type": draw.choice(["standard", "rotary", "shortformer", "alibi"]),
        "normalization_type": draw.choice([None, "LN", "LNPre", "RMS", "RMSPre"]),
    }
    some: list[dict[str, Any]] = [
        draw.choice([{"attn_only": True}, {"parallel_attn_mlp": True}, {"gated_mlp": True}]),
        {"n_key_value_heads": draw.choice([k for k in (1, 2, 4) if n_heads % k == 0])},
        {"use_local_attn": True, "window_size": 3, "attn_types": draw.choices(["local", "global"], k=n_layers)},
        {"attn_scores_soft_cap": 2.0},
        {"output_logits_soft_cap": 3.0},
        draw.choice([{"use_attn_scale": False}, {"attn_scale": 0.5}, {"scale_attn_by_inverse_layer_idx": True}]),
        draw.choice([{"use_qk_norm": True}, {"use_attention_sinks": True}, {"clip_qkv": 0.5}]),
        {"d_vocab_out": draw.choice([3, 10])},
        {"final_rms": True},
    ]
    if (config["normalization_type"] or "").startswith("RMS"):
        some.append({"use_normalization_before_and_after": True})
    for fields in some:
        config |= fields if draw.random() < 0.3 else {}
    return config


def weights_of(model: models.Model, seed: int) -> State:
    """Random weights, biases and gains, of a size at which attention is far from uniform."""
    generator, state = torch.Generator().manual_seed(seed), {}
    for name, weight in sorted(models.weights(model).items()):
        noise = torch.randn(weight.shape, generator=generator)
        is_weight = name.rpartition(".")[2].lstrip("_").startswith("W_")
        size = 1.5 / weight.shape[-2] ** 0.5 if is_weight and weight.ndim > 1 else 0.3
        state[name] = size * noise + (1.0 if name.endswith(".w") else 0.0)
    return state


class Reference:
    """TransformerLens's own model in float64, and what is measured by its hooks."""

    def __init__(self, config: Mapping[str, Any], state: State, batch: Batch) -> None:
        self.batch, self.model = batch, models.build(Architecture({**config, "dtype": torch.float64}))
        models.load(self.model, state)
        self.log_probs = self.edited([])

    def edited(self, hooks: list[Any]) -> Tensor:
        with torch.no_grad():
            return self.model.run_with_hooks(self.batch.tokens, fwd_hooks=hooks).log_softmax(-1)

    def mean(self, values: Tensor) -> float:
        scored = self.batch.scored
        return float((torch.where(scored, values, 0.0).sum(1) / scored.sum(1)).mean())

    def kl(self, other: Tensor) -> float:
        return self.mean((self.log_probs.exp() * (self.log_probs - other)).sum(-1))

    def context(self, context: int) -> float:
        def restrict(scores: Tensor, hook: object) -> Tensor:
            position = torch.arange(scores.shape[-1])
            return scores.masked_fill(position <= position[:, None] - context, -math.inf)

        names = [f"blocks.{layer}.attn.hook_attn_scores" for layer in range(self.model.cfg.n_layers)]
        return self.kl(self.edited([(name, restrict) for name in names]))

    def ablated(self, head: int, kind: str) -> float:
        def replace(z: Tensor, hook: object) -> Tensor:
            other = {"zero": torch.zeros_like(z), "mean": z.mean(0, keepdim=True), "resample": z.roll(1, 0)}[kind]
            z = z.clone()
            z[:, :, head] = other.expand_as(z)[:, :, head]
            return z

        return self.kl(self.edited([("blocks.0.attn.hook_z", replace)]))


def values(table: pd.DataFrame) -> pd.Series:
    """Values by all that names them, over the largest of their quantity."""
    keys = [name for name in table.columns if name not in ("value", "lo", "hi", "n", "resamples", "run", "step")]
    plain = table.assign(**{name: table[name].astype(str) for name in keys})
    largest = plain.groupby(["probe", "quantity"])["value"].transform(lambda each: max(each.abs().max(), 0.03))
    return plain.assign(value=plain["value"] / largest).set_index(keys)["value"].sort_index()


@pytest.mark.one_of(3)
@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_the_config_every_way_gives_the_same_numbers(seed: int) -> None:
    draw, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    config, length = drawn(draw), draw.choice([1, 2, 6, 36])
    architecture = Architecture({**config, "n_ctx": length + draw.choice([0, 3])})
    state = weights_of(models.build(architecture), seed)
    tokens = torch.randint(7, (4, length), generator=generator)
    targets = torch.randint(architecture.n_outputs, (4, length), generator=generator)
    scored = torch.rand(4, length, generator=generator) < 0.5
    scored[:, draw.randrange(length)] = True
    batch = Batch(tokens, targets, scored, {"itself": torch.eye(length, dtype=torch.bool).expand(4, -1, -1)})
    kinds = ("zero", "mean", "resample")
    chosen: list[AbstractProbe] = [Loss(), HeadAblation(kinds=kinds), RestrictedContextKL((1, 3)), AttentionTo()]
    chosen += [LogitLens(), DirectLogitAttribution()]
    series = CheckpointSeries("run", architecture, (0,), lambda step: state)
    how: tuple[dict[str, Any], ...] = ({}, {"by_hooks": True}, {"memory": 1})
    one, *others = (measure(series, chosen, batch, resamples=0, progress=False, **named) for named in how)
    for other in others:
        pd.testing.assert_series_equal(values(one), values(other), atol=SAME, rtol=0)
    reference = Reference(architecture.config, state, batch)
    expected = {"context 1": reference.context(1), "context 3": reference.context(3)}
    expected |= {f"{kind} {head}": reference.ablated(head, kind) for kind in kinds for head in range(config["n_heads"])}
    contexts = select(one, "RestrictedContextKL", "kl").set_index("context")["value"]
    heads = select(one, "HeadAblation", "kl", layer=0, control="head").set_index(["kind", "head"])["value"]
    found = {f"context {context}": contexts[context] for context in (1, 3)}
    found |= {f"{kind} {head}": heads[kind, head] for kind in kinds for head in range(config["n_heads"])}
    assert found == pytest.approx(expected, abs=SAME * max(0.03, *expected.values()), rel=SAME)
