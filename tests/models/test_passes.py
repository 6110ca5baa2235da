"""Clean and edited passes of every kind of model against the same computation without hooks."""

import re
from collections.abc import Callable
from typing import Any, Literal

import pytest
import torch

from stagewise import models
from stagewise.intervention import AblateHead, AblateMLP, Edit, RestrictContext

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
