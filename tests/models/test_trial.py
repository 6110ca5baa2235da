"""Edits that do not do what they say are found out by their effect, whatever is wrong with the model's hooks."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.checkpoints.series import open_series
from stagewise.intervention import AblateHead, AblateMLP, RestrictContext
from stagewise.measurement.engine import measure
from stagewise.models import _bridge_edits as bridge_edits
from stagewise.models import _edits as edits
from stagewise.models import _hooked_edits as hooked_edits
from stagewise.models import _readout as passes
from stagewise.models import _trial as trial
from stagewise.models._bridge_loading import trial_tokens
from stagewise.papers.linear_init import LinearInit
from stagewise.papers.scan_and_snap.growth_factor import GrowthFactor
from stagewise.tasks import RepeatedTokens

Make = Callable[..., Any]
KINDS = (AblateHead, AblateMLP, RestrictContext)
BUILT = "hooked" if models.has_hooked_transformer() else "native"
EDITED = ("LN and MLP", "GPTJ")


@pytest.fixture(autouse=True)
def untried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The models of the tests are made once: what was tried is forgotten."""
    monkeypatch.setattr(trial, "_TRIED", {})


@pytest.mark.one_of(2)
@pytest.mark.parametrize("kind", ["GPT2", "GPTNeoX", "Gemma2", "OPT", "GPTJ"])
def test_hooks_of_scores_hold_scores_or_are_refused(kind: str, hugging_face: Callable[..., Any]) -> None:
    plain = hugging_face(kind)
    model: Any = models.build(models.described(plain))
    models.load(model, plain.state_dict())
    tokens, name = torch.randint(32, (2, 9)), "blocks.1.attn.hook_attn_scores"
    _, shown = models.clean_pass(model, tokens, {name, "blocks.1.attn.hook_pattern"})
    if torch.equal(shown[name], shown["blocks.1.attn.hook_pattern"]):
        with pytest.raises(ValueError, match=rf"{name} of {kind}\w+ holds no attention scores"):
            models.check_scores(model, [name], tokens)
    else:
        models.check_scores(model, [name], tokens)
        torch.testing.assert_close(shown[name].softmax(-1), shown["blocks.1.attn.hook_pattern"])


def test_a_probe_of_scores_is_refused_where_a_hook_holds_the_pattern(hugging_face: Callable[..., Any]) -> None:
    series = open_series([(0, hugging_face("OPT"))])
    batch = RepeatedTokens(32, 8).probe_batch(4, seed=0)
    with pytest.raises(ValueError, match=r"blocks\.0\.attn\.hook_attn_scores of OPT\w+ holds no attention scores"):
        measure(series, [GrowthFactor()], batch, progress=False)


@pytest.mark.parametrize("kind", ["grouped queries"])
def test_models_edit_as_they_say(kind: str, subject: Make) -> None:
    one = subject(kind)
    models.check_edits(one.built, KINDS, one.tokens)
    assert trial._TRIED[one.built] == set(KINDS)


def test_the_only_head_of_a_layer_without_biases_leaves_nothing_but_rounding() -> None:
    config = {"n_layers": 1, "n_heads": 1, "d_model": 200, "d_head": 200, "n_ctx": 8, "d_vocab": 50, "attn_only": True}
    built = models.build(Architecture(config, LinearInit()))
    with torch.no_grad():
        models.parameters(built)["blocks.0.attn.b_O"].zero_()
    models.check_edits(built, [AblateHead], torch.zeros(1, 8, dtype=torch.int64))
    assert trial._TRIED[built] == {AblateHead}


@pytest.mark.slow
def test_every_kind_of_model_edits_as_it_says(any_kind: str, subject: Make) -> None:
    one = subject(any_kind)
    models.check_edits(one.built, KINDS, one.tokens)
    assert trial._TRIED[one.built] == set(KINDS)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("kind", EDITED)
def test_each_kind_is_tried_once_a_model(kind: str, subject: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one, runs = subject(kind), []
    models.check_edits(one.built, KINDS, one.tokens)
    monkeypatch.setattr(trial, "clean_pass", lambda *given, **named: runs.append(given))
    models.check_edits(one.built, KINDS, one.tokens)
    assert not runs


@pytest.mark.parametrize("kind", EDITED)
def test_a_dead_hook_of_z_is_found_out(kind: str, subject: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one = subject(kind)
    monkeypatch.setattr(hooked_edits, "ablate", lambda z, head, replaced, n_heads: z.clone())
    with pytest.raises(ValueError, match="without some heads, attention of layer 0 does not write what is left"):
        models.check_edits(one.built, [AblateHead], one.tokens)


@pytest.mark.parametrize("kind", EDITED)
def test_another_hook_than_the_mlps_is_found_out(kind: str, subject: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one = subject(kind)
    monkeypatch.setattr(hooked_edits, "mlp_hook", lambda layer: f"blocks.{layer}.hook_attn_out")
    with pytest.raises(ValueError, match="the MLP of layer 0 replaced by itself changes the predictions"):
        models.check_edits(one.built, [AblateMLP], one.tokens)


@pytest.mark.parametrize("kind", EDITED)
def test_an_mlp_that_stays_in_part_is_found_out(kind: str, subject: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one = subject(kind)
    half = lambda part, clean: clean[edits.mlp_hook(part.layer)] / 2  # noqa: E731
    monkeypatch.setattr(passes, "clean_replacement", half)
    with pytest.raises(ValueError, match=r"AblateMLP does not do on .*: without its MLP, layer 0 does not leave"):
        models.check_edits(one.built, [AblateMLP], one.tokens)


@pytest.mark.parametrize("kind", EDITED)
def test_heads_cut_at_other_places_are_found_out(kind: str, subject: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one = subject(kind)

    def shifted(z: Tensor, head: int, replaced: Tensor, n_heads: int) -> Tensor:
        flat = z.flatten(2).roll(1, -1).unflatten(2, (n_heads, -1)).clone()
        flat[:, :, head] = replaced
        whole: Tensor = flat.flatten(2).roll(-1, -1).view(z.shape)
        return whole

    monkeypatch.setattr(hooked_edits, "ablate", shifted)
    with pytest.raises(ValueError, match=r"AblateHead does not do on .* what it says: .*--without"):
        models.check_edits(one.built, [AblateHead], one.tokens)


def test_a_model_that_reads_its_tokens_again_is_found_out_if_it_is_given_others(
    subject: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = subject("GPTJ")
    plain: Callable[..., Tensor] = bridge_edits.edited_logits

    def elsewhere(*given: Any) -> Tensor:
        last: Tensor = given[-1]
        return plain(*given) + last[..., None]

    monkeypatch.setattr(bridge_edits, "edited_logits", elsewhere)
    with pytest.raises(ValueError, match="heads of layer 0 replaced by themselves change the predictions"):
        models.check_edits(one.built, [AblateHead], one.tokens)


@pytest.mark.parametrize("kind", EDITED)
@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda n, context: context + 1, "a context of 2 positions is not attention restricted to them"),
        (lambda n, context: n if context == n else 1, "a context of 2 positions is not attention restricted to them"),
        (lambda n, context: context - 1, "a context of all positions changes the predictions"),
    ],
    ids=["too long", "too short", "never whole"],
)
def test_a_context_of_another_length_is_found_out(
    kind: str, change: Callable[[int, int], int], fault: str, subject: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = subject(kind)
    if kind != "LN and MLP":
        bridge_edits._route(one.built)  # which asks for contexts itself
    for module in (bridge_edits, hooked_edits):
        for name in ("restrict_scores", "restrict_pattern"):
            if (restrict := getattr(module, name, None)) is not None:
                changed = lambda x, context, restrict=restrict: restrict(x, change(x.shape[-1], context))  # noqa: E731
                monkeypatch.setattr(module, name, changed)
    if BUILT == "native":
        mask = bridge_edits._mask
        monkeypatch.setattr(bridge_edits, "_mask", lambda t, context: mask(t, change(t.shape[1], context)))
    with pytest.raises(ValueError, match=fault):
        models.check_edits(one.built, [RestrictContext], one.tokens)


def test_attention_that_is_all_elsewhere_is_tried_with_a_context_that_leaves_some(subject: Make) -> None:
    one = subject("LN and MLP", 2, 10.0)
    tokens = trial_tokens(one.built.cfg.d_vocab, 8)
    _, clean = models.clean_pass(one.built, tokens, {"blocks.0.attn.hook_pattern"})
    assert not edits.leaves_attention(clean["blocks.0.attn.hook_pattern"], 2)
    models.check_edits(one.built, [RestrictContext], one.tokens)
    assert trial._TRIED[one.built] == {RestrictContext}


def test_a_model_that_reads_both_ways_has_no_last_positions() -> None:
    config = {"n_layers": 1, "n_heads": 2, "d_model": 8, "d_head": 4, "n_ctx": 6, "d_vocab": 5, "attn_only": True}
    built = models.build(Architecture({**config, "attention_dir": "bidirectional"}))
    with pytest.raises(ValueError, match=r"RestrictContext does not do .*: its queries attend to later positions"):
        models.check_edits(built, [RestrictContext], torch.zeros(1, 6, dtype=torch.int64))


def test_a_sink_whose_mass_a_context_would_drop_stays() -> None:
    """Half of all attention goes into a sink: the context of all positions must change nothing."""
    pattern = torch.rand(2, 3, 5, 5).tril().softmax(-1).tril()
    pattern = pattern / pattern.sum(-1, keepdim=True) / 2
    torch.testing.assert_close(edits.restrict_pattern(pattern, 5), pattern)
    two = edits.restrict_pattern(pattern, 2)
    kept = (pattern.triu(-1)).sum(-1)
    torch.testing.assert_close(two.sum(-1), kept / (kept + 0.5))


def test_weights_on_which_attention_and_mlps_write_nothing_are_tried_again(subject: Make) -> None:
    one = subject("LN and MLP", 2)
    state = models.weights(one.built)
    silent = {name: weight * 0 if name.endswith(("W_O", "_out")) else weight for name, weight in state.items()}
    try:
        models.load(one.built, silent)
        models.check_edits(one.built, KINDS, one.tokens)
        assert not trial._TRIED[one.built]
    finally:
        models.load(one.built, state)
    models.check_edits(one.built, KINDS, one.tokens)
    assert trial._TRIED[one.built] == set(KINDS)
