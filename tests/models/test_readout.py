"""The readout: behind the last layer it is the model, and its parts add up to the logits."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.attention import residual_hooks_of
from stagewise.checkpoints.series import open_series
from stagewise.init import GaussianInit
from stagewise.measurement.engine import measure
from stagewise.models._readout import Readout, readout
from stagewise.models._wrapping import wrapped
from stagewise.probes import DirectLogitAttribution, LogitLens, Loss
from stagewise.table import select
from stagewise.tasks import RepeatedTokens
from tests.models.conftest import HOOKED
from tests.models.small_families import family_of

FLOAT32 = 2e-4
"""Logits of order ten in float32, sums in another order."""

SIZES = {
    "n_layers": 2,
    "n_heads": 4,
    "d_model": 16,
    "d_head": 4,
    "d_mlp": 8,
    "act_fn": "relu",
    "n_ctx": 16,
    "d_vocab": 32,
}
TOKENS = RepeatedTokens(32, length=6).probe_batch(3, seed=0)
BRIDGES = ("GPT2", "GPTNeoX", "Llama", "Gemma2", "Mixtral", "Olmo")
KINDS: dict[str, dict[str, Any]] = {
    "no norm": {"normalization_type": None},
    "LN": {"normalization_type": "LN"},
    "LNPre": {"normalization_type": "LNPre"},
    "RMS": {"normalization_type": "RMS"},
    "RMSPre": {"normalization_type": "RMSPre"},
    "no MLP": {"attn_only": True, "d_mlp": None},
    "soft cap": {"output_logits_soft_cap": 3.0},
    "rotary": {"positional_embedding_type": "rotary"},
    "MLPs of another kind": {"act_fn": "solu_ln", "normalization_type": "LN"},
}


def made(kind: str, hugging_face: Callable[..., nn.Module]) -> models.Model:
    if kind in BRIDGES:
        return wrapped(hugging_face(kind))
    model = models.build(Architecture({**SIZES, **KINDS[kind]}, GaussianInit(0.3)))
    with torch.no_grad():
        for name, parameter in models.parameters(model).items():
            if name.startswith("ln_final") or "b_" in name:
                parameter.add_(torch.linspace(-0.5, 0.5, parameter.numel()).reshape(parameter.shape))
    return model


def passed(model: models.Model) -> tuple[Tensor, Tensor, dict[str, Tensor], Readout]:
    """Logits, log-probabilities, activations and readout of a clean pass."""
    names = {*residual_hooks_of(2), *(f"blocks.{layer}.attn.hook_z" for layer in (0, 1))}
    logits, found = models.clean_pass(model, TOKENS.tokens, names, regression=True)
    return logits, logits.log_softmax(-1), found, readout(model, found, logits.log_softmax(-1))


@pytest.mark.one_of(3)
@pytest.mark.parametrize("kind", [*KINDS, *BRIDGES])
def test_behind_the_last_layer_the_lens_is_the_model(kind: str, hugging_face: Callable[..., nn.Module]) -> None:
    logits, _, found, read = passed(made(kind, hugging_face))
    torch.testing.assert_close(read.logits(found["blocks.1.hook_resid_post"]), logits, atol=FLOAT32, rtol=FLOAT32)
    before = read.logits(found["blocks.1.hook_resid_pre"])
    assert (before - logits).abs().max() > 0.01


@pytest.mark.one_of(3)
@pytest.mark.parametrize("kind", [*KINDS, *BRIDGES])
def test_the_parts_add_up_to_the_logit_of_the_target(kind: str, hugging_face: Callable[..., nn.Module]) -> None:
    model = made(kind, hugging_face)
    logits, _, found, read = passed(model)
    cap = read.weights.logit_cap
    uncapped = logits if cap is None else cap * torch.atanh((logits / cap).double()).float()
    targets = TOKENS.targets
    own = uncapped.gather(-1, targets[..., None])[..., 0] - uncapped.mean(-1)
    streams = [found[name] for name in residual_hooks_of(2)]
    whole = read.direct(streams[0], streams[-1], targets)
    for layer in (0, 1):
        written = read.written(layer, found[f"blocks.{layer}.attn.hook_z"])
        rest = streams[layer + 1] - streams[layer] - written.sum(2)
        whole = whole + read.direct(rest, streams[-1], targets)
        expanded = streams[-1][:, :, None].expand(written.shape), targets[:, :, None].expand(written.shape[:3])
        whole = whole + read.direct(written, *expanded).sum(-1)
    shift = read.weights.ln_final.bias
    bias = read.weights.bias_u if shift is None else read.weights.bias_u + shift @ read.weights.W_U
    expected = own - (bias[targets] - bias.mean())
    atol = FLOAT32 if cap is None else 0.05  # the inverse of the cap magnifies rounding
    torch.testing.assert_close(whole, expected, atol=atol, rtol=1e-3)


@pytest.mark.parametrize("kind", ["LN", "rotary", "Gemma2"])
def test_what_heads_write_is_what_attention_adds_to_the_stream(
    kind: str, hugging_face: Callable[..., nn.Module]
) -> None:
    model = made(kind, hugging_face)
    _, _, found, read = passed(model)
    layer = read.weights.layers[0]
    written = read.written(0, found["blocks.0.attn.hook_z"]).sum(2)
    middle = models.clean_pass(model, TOKENS.tokens, ["blocks.0.hook_resid_mid"])[1]["blocks.0.hook_resid_mid"]
    added = middle - found["blocks.0.hook_resid_pre"]
    if layer.ln1_post is None:
        written = written + layer.bias_o
    torch.testing.assert_close(written, added, atol=FLOAT32, rtol=FLOAT32)


BEHIND = {"MLP after it": {}, "MLP beside it": {"parallel_attn_mlp": True}, "no MLP": {"attn_only": True}}


@pytest.mark.skipif(not HOOKED, reason="native bridges refuse these fields")
@pytest.mark.parametrize("change", BEHIND.values(), ids=BEHIND)
def test_a_norm_behind_attention_scales_what_each_head_writes(change: dict[str, Any]) -> None:
    fields = {**SIZES, **change, "normalization_type": "RMS", "use_normalization_before_and_after": True}
    model = models.build(Architecture(fields, GaussianInit(0.3)))
    attention, norm = model.blocks[0].attn, model.blocks[0].ln1_post
    with torch.no_grad():
        norm.w.mul_(torch.linspace(0.5, 2.0, 16))
        _, log_probs, found, _ = passed(model)
        z = found["blocks.0.attn.hook_z"]
        each = torch.einsum("bphd,hdm->bphm", z, attention.W_O)
        size = (each.sum(2) + attention.b_O).square().mean(-1).add(norm.eps).sqrt()
    read = readout(model, found, log_probs, tokens=TOKENS.tokens)
    torch.testing.assert_close(read.written(0, z), each * norm.w / size[..., None, None], atol=FLOAT32, rtol=FLOAT32)


@pytest.mark.skipif(not HOOKED, reason="native bridges refuse these fields")
@pytest.mark.parametrize("change", BEHIND.values(), ids=BEHIND)
def test_what_changes_attentions_output_unseen_is_not_attributed_directly(change: dict[str, Any]) -> None:
    model = models.build(Architecture({**SIZES, **change}, GaussianInit(0.3)))
    model.hook_dict["blocks.1.hook_attn_out"].add_perma_hook(lambda x, hook: 0.5 * x)
    _, log_probs, found, _ = passed(model)
    read = readout(model, found, log_probs, tokens=TOKENS.tokens)
    with pytest.raises(ValueError, match="multiplies or normalises what attention writes"):
        read.written(0, found["blocks.0.attn.hook_z"])


def test_an_end_that_does_not_give_the_predictions_is_refused(hugging_face: Callable[..., nn.Module]) -> None:
    model = made("LN", hugging_face)
    _, log_probs, found, _ = passed(model)
    with pytest.raises(ValueError, match="do not give its own predictions: leave the probes that read logits from"):
        readout(model, found, log_probs.flip(-1))


def test_where_hooks_change_the_stream_the_lens_stands_and_parts_are_refused() -> None:
    model = models.build(Architecture({**SIZES, "normalization_type": None}, GaussianInit(0.3)))
    model.hook_dict["blocks.0.hook_resid_mid"].add_perma_hook(lambda x, hook: x / x.norm(dim=-1, keepdim=True))
    logits, _, found, read = passed(model)
    last = found["blocks.1.hook_resid_post"]
    torch.testing.assert_close(read.logits(last), logits, atol=FLOAT32, rtol=FLOAT32)
    with pytest.raises(ValueError, match="hooks that stay with this model change its residual stream"):
        read.direct(last, last, TOKENS.targets)


def test_measured_the_lens_of_the_last_layer_has_the_models_loss_and_no_divergence() -> None:
    architecture = Architecture({**SIZES, "normalization_type": "LN"}, GaussianInit(0.3))
    series = open_series([(step, models.build(architecture, seed=step)) for step in (0, 1)])
    table = measure(series, [Loss(), LogitLens(), DirectLogitAttribution()], TOKENS, resamples=5, progress=False)
    own = select(table, "Loss", "cross_entropy")["value"].to_numpy()
    lens = select(table, "LogitLens", "loss", layer=2)["value"].to_numpy()
    assert lens == pytest.approx(own, abs=FLOAT32)
    assert select(table, "LogitLens", "kl", layer=2)["value"].abs().max() < FLOAT32
    assert select(table, "LogitLens", "kl", layer=0)["value"].min() > FLOAT32
    assert math.isfinite(select(table, "DirectLogitAttribution", "head")["value"].sum())


POST_NORMS = pytest.mark.skipif(not HOOKED, reason="transformer-lens 4 shows no norm in front of OLMo2's attention")


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    ("family", "fields"),
    [("granite", {"residual_multiplier": 0.5, "logits_scaling": 1.0}), pytest.param("olmo2", {}, marks=POST_NORMS)],
)
def test_heads_whose_output_is_changed_on_its_way_are_not_attributed_directly(
    family: str, fields: dict[str, float]
) -> None:
    one = family_of(family)
    series = open_series([(0, one._replace(fields={**one.fields, **fields}).small())])
    tokens = RepeatedTokens(series.architecture.n_outputs, length=6).probe_batch(3, seed=0)
    with pytest.raises(ValueError, match="multiplies or normalises what attention writes"):
        measure(series, [DirectLogitAttribution()], tokens)
    assert select(measure(series, [LogitLens()], tokens), "LogitLens", "kl")["value"].iloc[-1] < FLOAT32
