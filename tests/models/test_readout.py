"""The readout: behind the last layer it is the model, and its parts add up to the logits."""

import math
import re
from collections.abc import Callable
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.attention import residual_hooks_of
from stagewise.checkpoints.series import open_series
from stagewise.init import GaussianInit
from stagewise.intervention import AblateHead, AblateMLP, Edit, RestrictContext
from stagewise.measurement.engine import measure
from stagewise.models._bridge_loading import wrapped
from stagewise.models._readout import Readout, readout
from stagewise.probes import DirectLogitAttribution, LogitLens, Loss
from stagewise.table import select
from stagewise.tasks import RepeatedTokens
from tests.models.conftest import HOOKED, of_all
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
    return logits, logits.log_softmax(-1), found, readout(model, found, *of_all(logits.log_softmax(-1)))


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
    read = readout(model, found, *of_all(log_probs), tokens=TOKENS.tokens)
    torch.testing.assert_close(read.written(0, z), each * norm.w / size[..., None, None], atol=FLOAT32, rtol=FLOAT32)


@pytest.mark.skipif(not HOOKED, reason="native bridges refuse these fields")
@pytest.mark.parametrize("change", BEHIND.values(), ids=BEHIND)
def test_what_changes_attentions_output_unseen_is_not_attributed_directly(change: dict[str, Any]) -> None:
    model = models.build(Architecture({**SIZES, **change}, GaussianInit(0.3)))
    model.hook_dict["blocks.1.hook_attn_out"].add_perma_hook(lambda x, hook: 0.5 * x)
    _, log_probs, found, _ = passed(model)
    read = readout(model, found, *of_all(log_probs), tokens=TOKENS.tokens)
    with pytest.raises(ValueError, match="multiplies or normalises what attention writes"):
        read.written(0, found["blocks.0.attn.hook_z"])


def test_an_end_that_does_not_give_the_predictions_is_refused(hugging_face: Callable[..., nn.Module]) -> None:
    model = made("LN", hugging_face)
    _, log_probs, found, _ = passed(model)
    with pytest.raises(ValueError, match="do not give its own predictions: leave the probes that read logits from"):
        readout(model, found, *of_all(log_probs.flip(-1)))


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


SAME, CUT = 1e-5, 1e-4
"""Log-probabilities of order one to ten in float32: the same sums, and sums in another order through the layers."""

HUGGING_FACE = ("GPT2", "GPTNeoX", "Llama", "Gemma2", "GPTJ", "Bloom", "OPT", "Mixtral")

TRUNCATED = ("attention only", "LN and MLP", "LNPre", "parallel", "gated", "one key-value head")
"""A context as long as the sequence leaves them bit by bit alike."""

Make = Callable[..., Any]


@pytest.mark.one_of(4)
def test_the_clean_pass_is_the_plain_one(kind_or_more: str, subject: Make) -> None:
    one = subject(kind_or_more)
    expected = one.plain()
    assert expected.std() > (0.1 if kind_or_more not in HUGGING_FACE else 0.5)
    torch.testing.assert_close(one.clean(), expected, atol=CUT if kind_or_more not in HUGGING_FACE else SAME, rtol=0)


@pytest.mark.one_of(4)
def test_patterns_sum_to_one_over_the_keys_before_the_query(kind_or_more: str, subject: Make) -> None:
    one = subject(kind_or_more)
    names = [f"blocks.{layer}.attn.hook_pattern" for layer in range(one.built.cfg.n_layers)]
    _, activations = models.clean_pass(one.built, one.tokens, names)
    for name in names:
        assert activations[name].shape == (5, 4, one.length, one.length)
        torch.testing.assert_close(activations[name].sum(-1), torch.ones(5, 4, one.length), atol=SAME, rtol=0)
        assert not activations[name].triu(1).any()


def test_the_clean_pass_is_the_models_own_and_gives_the_named_activations(subject: Make) -> None:
    one, names = subject("LN and MLP", 2), {"blocks.0.attn.hook_pattern", "blocks.1.hook_resid_pre"}
    log_probs, activations = models.clean_pass(one.built, one.tokens, names)
    with torch.no_grad():
        logits, cache = one.built.run_with_cache(one.tokens)
    torch.testing.assert_close(log_probs, logits - logits.logsumexp(-1, keepdim=True), atol=SAME, rtol=0)
    assert activations.keys() == names
    assert all(torch.equal(activations[name], cache[name]) for name in names)


@pytest.mark.one_of(4)
def test_activations_without_predictions_are_those_of_the_clean_pass(kind_or_more: str, subject: Make) -> None:
    one = subject(kind_or_more)
    last = one.built.cfg.n_layers - 1
    names = {f"blocks.{last}.attn.hook_pattern", f"blocks.{last}.hook_resid_post", f"blocks.{last}.attn.hook_z"}
    log_probs, expected = models.clean_pass(one.built, one.tokens, names)
    alone = models.activations_alone(one.built, one.tokens, names)
    assert alone.keys() == names
    assert all(torch.equal(alone[name], expected[name]) for name in names)
    assert torch.equal(models.clean_pass(one.built, one.tokens, names)[0], log_probs)  # the model predicts as before


@pytest.mark.one_of(4)
def test_scored_predictions_are_the_models_own_and_the_same_with_and_without_the_others(
    kind_or_more: str, subject: Make
) -> None:
    one, names = subject(kind_or_more), {"blocks.1.attn.hook_pattern"}
    scored = torch.zeros(one.tokens.shape, dtype=torch.bool)
    scored[0, 1:3] = scored[2:, -1] = scored[3] = True  # as many in no two sequences, in one none, in one all
    rows, whole, alone = models.scored_pass(one.built, one.tokens, names, scored, others=False)
    among, found, _ = models.scored_pass(one.built, one.tokens, names, scored)
    expected, shown = models.clean_pass(one.built, one.tokens, names)
    assert whole is None
    assert found is not None
    assert torch.equal(rows, among)
    assert torch.equal(rows, found[scored])
    torch.testing.assert_close(found, expected, atol=SAME, rtol=0)
    assert all(torch.equal(alone[name], shown[name]) for name in names)


def test_a_hook_that_stays_sees_the_logits_of_all_positions(subject: Make) -> None:
    """It may change them by their position, as here the first: then all are unembedded at once."""
    one = subject("LN and MLP", 1)
    scored = torch.zeros_like(one.tokens, dtype=torch.bool)
    scored[:, 0] = True

    def first_alone(logits: torch.Tensor, hook: Any) -> torch.Tensor:
        return logits * (torch.arange(logits.shape[1]) == 0)[:, None]

    clean, point = one.clean()[:, 0], one.built.hook_dict["unembed.hook_out"]
    point.add_perma_hook(first_alone)
    try:
        rows, whole, _ = models.scored_pass(one.built, one.tokens, (), scored, others=False)
    finally:
        point.remove_hooks("fwd", including_permanent=True)
    assert whole is not None
    torch.testing.assert_close(rows, clean, atol=SAME, rtol=0)
    uniform = torch.full_like(whole[:, 1:], -math.log(whole.shape[-1]))
    torch.testing.assert_close(whole[:, 1:], uniform, atol=SAME, rtol=0)


def test_a_hook_that_does_not_exist_is_refused(subject: Make) -> None:
    one = subject("LN and MLP", 1)
    with pytest.raises(ValueError, match=r"has no hook blocks.0.hook_nothing; it has blocks.0.hook_.* others"):
        models.clean_pass(one.built, one.tokens, ["hook_embed", "blocks.0.hook_nothing"])


def test_an_error_of_a_foreign_forward_pass_names_the_model(subject: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one = subject("GPTNeoX")
    monkeypatch.setattr(
        one.built.original_model.gpt_neox, "forward", lambda *given, **named: torch.zeros(2) @ torch.eye(3)
    )
    with pytest.raises(
        ValueError, match=r"^GPTNeoXForCausalLM does not run on these tokens: .*cannot be multiplied.*$"
    ):
        models.clean_pass(one.built, one.tokens, [])


@pytest.mark.one_of(4)
@pytest.mark.each_value
@pytest.mark.parametrize("beyond", [0, 1000])
def test_a_context_as_long_as_the_sequence_changes_nothing(any_kind: str, beyond: int, subject: Make) -> None:
    one = subject(any_kind)
    edited, clean = one.edited((RestrictContext(one.length + beyond),)), one.clean()
    torch.testing.assert_close(edited, clean, atol=0 if any_kind in TRUNCATED else SAME, rtol=0)


@pytest.mark.one_of(4)
@pytest.mark.each_value
@pytest.mark.parametrize(("layer", "head"), [(0, 0), (0, 3), (1, 2), (-1, 1)])
def test_ablating_a_head_is_the_plain_pass_without_what_it_writes(
    kind: str, layer: int, head: int, subject: Make
) -> None:
    one = subject(kind)
    layer %= one.built.cfg.n_layers
    expected = one.plain(without=(layer, head))
    assert (expected - one.plain()).abs().max() > 1e-2
    torch.testing.assert_close(one.edited((AblateHead(layer, head),)), expected, atol=CUT, rtol=0)


@pytest.mark.one_of(4)
def test_a_head_is_ablated_inside_a_restricted_context(kind: str, subject: Make) -> None:
    one = subject(kind)
    both = one.edited((AblateHead(1, 2), RestrictContext(3)))
    torch.testing.assert_close(both, one.plain(3, without=(1, 2)), atol=CUT, rtol=0)


@pytest.mark.each_value
@pytest.mark.parametrize("model", ["LN and MLP", *HUGGING_FACE[:5]])
@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("kind", ["mean", "resample"])
def test_a_mean_and_another_sequences_output_are_put_in_place(
    model: str, layer: int, kind: Literal["mean", "resample"], subject: Make
) -> None:
    one, name = subject(model), f"blocks.{layer}.attn.hook_z"
    _, activations = models.clean_pass(one.built, one.tokens, [name])
    z = activations[name].clone()
    head = [z[row, :, 2].clone() for row in range(5)]
    z[:, :, 2] = sum(head) / 5 if kind == "mean" else torch.stack([head[row - 1] for row in range(5)])
    expected = one.hooked(name, lambda x: z)
    torch.testing.assert_close(one.edited((AblateHead(layer, 2, kind),)), expected, atol=CUT, rtol=0)


OUT = re.compile(r"mlp\.(W_out|b_out|out\.(weight|bias))|experts\.(\d+\.)?(W_out|b_out|down_proj)")
"""Names of the weights by which an MLP writes."""


@pytest.mark.one_of(4)
@pytest.mark.each_value
@pytest.mark.parametrize("layer", [0, 1])
def test_without_an_mlp_is_the_model_whose_mlp_writes_nothing(kind_or_more: str, layer: int, subject: Make) -> None:
    one = subject(kind_or_more)
    if kind_or_more == "attention only":
        with pytest.raises(ValueError, match=r"layer . of .* has no MLP whose output could be replaced"):
            one.edited((AblateMLP(layer),))
        return
    edited, state = one.edited((AblateMLP(layer),)), models.weights(one.built)
    silent = {name for name in state if OUT.search(name) and f".{layer}." in name}
    assert silent
    try:
        models.load(one.built, {name: weight * (name not in silent) for name, weight in state.items()})
        expected = one.clean()
    finally:
        models.load(one.built, state)
    assert (one.clean() - expected).abs().max() > 100 * CUT
    torch.testing.assert_close(edited, expected, atol=CUT, rtol=0)


@pytest.mark.parametrize("model", ["LN and MLP", "gated", *HUGGING_FACE])
def test_an_mlps_mean_is_put_into_the_residual_stream(model: str, subject: Make) -> None:
    one, name = subject(model), "blocks.0.hook_mlp_out"
    _, activations = models.clean_pass(one.built, one.tokens, [name])
    change = activations[name].mean(0) - activations[name]
    expected = one.hooked("blocks.1.hook_resid_pre", lambda x: x + change)
    torch.testing.assert_close(one.edited((AblateMLP(0, "mean"),)), expected, atol=CUT, rtol=0)


@pytest.mark.one_of(3)
@pytest.mark.each_value
@pytest.mark.parametrize("kind", ["LN and MLP", *HUGGING_FACE[:5]])
def test_an_edit_leaves_the_model_and_the_activations_as_they_were(kind: str, any_edit: Edit, subject: Make) -> None:
    one = subject(kind, 3)
    clean, activations = models.clean_pass(one.built, one.tokens, models.hooks_for(one.built, any_edit))
    before = {name: activation.clone() for name, activation in activations.items()}
    state = models.weights(one.built)
    models.edited_pass(one.built, any_edit, activations)
    assert torch.equal(clean, one.clean())
    assert all(torch.equal(before[name], activation) for name, activation in activations.items())
    assert all(torch.equal(state[name], weight) for name, weight in models.weights(one.built).items())
    assert not any(point.fwd_hooks for point in one.built.hook_dict.values())


@pytest.mark.parametrize("edit", [(AblateHead(2, 0),), (AblateHead(0, 4),)], ids=str)
def test_a_head_that_does_not_exist_is_refused_with_how_many_there_are(edit: Edit, subject: Make) -> None:
    one = subject("LN and MLP", 2)
    clean = {f"blocks.{layer}.hook_resid_pre": torch.zeros(1, 9, 16) for layer in range(3)}
    with pytest.raises(ValueError, match=r"there is no head L\dH\d: the model has 2 layers of 4 heads, counted from 0"):
        models.edited_pass(one.built, edit, clean)
