"""Building, loading and editing: every edit against the same computation in plain torch."""

import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from stagewise import architecture
from stagewise import models as model
from stagewise.architecture import Architecture
from stagewise.init import GaussianInit, WithoutPositions
from stagewise.intervention import AblateHead, Edit, RestrictContext
from stagewise.models import hooked_edits as hooked_pass

FLOAT32 = 1e-5
"""Log-probabilities of order one, sums in another order."""

CONFIG = {"d_model": 12, "d_head": 4, "n_heads": 3, "n_ctx": 8, "d_vocab": 5, "act_fn": "relu", "d_mlp": 8}
TOKENS = torch.randint(5, (6, 8), generator=torch.Generator().manual_seed(0))

HOOKED = model.has_hooked_transformer()
"""A HookedTransformer, or what transformer-lens 4 has in its place, which computes with fewer fields of a config."""


def there(kinds: dict[str, dict]) -> dict[str, dict]:
    """The kinds of model that the installed TransformerLens makes from a config."""
    return {name: change for name, change in kinds.items() if HOOKED or name not in NOT_IN_4}


NOT_IN_4: dict[str, dict] = {
    "parallel": {"parallel_attn_mlp": True},
    "alibi": {"positional_embedding_type": "alibi"},
    "shortformer": {"positional_embedding_type": "shortformer"},
    "local attention": {"use_local_attn": True, "window_size": 3, "attn_types": ["local", "global"]},
    "experts": {"num_experts": 2, "experts_per_token": 1, "gated_mlp": True},
    "unscaled scores": {"use_attn_scale": False},
    "scores scaled by layer": {"scale_attn_by_inverse_layer_idx": True},
    "norm of queries and keys": {"use_qk_norm": True},
    "results of heads": {"use_attn_result": True},
    "half precision": {"dtype": torch.bfloat16},
    "scaled rotary": {"positional_embedding_type": "rotary", "use_NTK_by_parts_rope": True},
}
KINDS = {
    "attn-only": {"attn_only": True, "normalization_type": None},
    "LN and MLP": {},
    "LNPre": {"normalization_type": "LNPre"},
    "parallel": NOT_IN_4["parallel"],
    "gated": {"gated_mlp": True, "act_fn": "silu"},
    "grouped queries": {"n_key_value_heads": 1},
}
every_kind = pytest.mark.parametrize("change", there(KINDS).values(), ids=there(KINDS).keys())


def build(n_layers: int = 1, **change: object) -> torch.nn.Module:
    """A model whose parameters are all random, biases too."""
    built = model.build(Architecture({**CONFIG, "n_layers": n_layers, **change}, GaussianInit(0.4)))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return built


def edited(built: torch.nn.Module, edit: Edit) -> Tensor:
    """The edited pass, from the activations of a clean one."""
    _, activations = model.clean_pass(built, TOKENS, model.hooks_for(built, edit))
    return model.edited_pass(built, edit, activations)


def hooked(built: torch.nn.Module, name: str, change: Callable[[Tensor], Tensor]) -> Tensor:
    """The whole pass with one activation replaced: TransformerLens alone."""
    with torch.no_grad():
        logits = built.run_with_hooks(TOKENS, fwd_hooks=[(name, lambda x, hook: change(x))])
    return logits.log_softmax(-1)


def truncated(built: torch.nn.Module, context: int) -> Tensor:
    """The model on each truncated window, at the true positions: a restricted context of one layer."""
    columns = []
    for query in range(TOKENS.shape[1]):
        first = max(0, query - context + 1)
        positions = built.W_pos[first : query + 1]
        with torch.no_grad():
            logits = built.run_with_hooks(
                TOKENS[:, first : query + 1],
                fwd_hooks=[("hook_pos_embed", lambda x, hook, positions=positions: positions)],
            )
        columns.append(logits[:, -1].log_softmax(-1))
    return torch.stack(columns, 1)


@every_kind
def test_a_restricted_context_is_the_model_on_the_truncated_window(change: dict) -> None:
    built = build(**change)
    expected = truncated(built, 3)
    assert (expected - built(TOKENS).log_softmax(-1)).abs().max() > 1e-2
    torch.testing.assert_close(edited(built, (RestrictContext(3),)), expected, atol=FLOAT32, rtol=0)


def test_a_restricted_context_of_a_relative_model_is_the_model_on_the_window_alone() -> None:
    built = build(positional_embedding_type="rotary", rotary_dim=4)
    restricted = edited(built, (RestrictContext(3),))
    with torch.no_grad():
        for query in range(2, 8):
            window = built(TOKENS[:, query - 2 : query + 1])[:, -1].log_softmax(-1)
            torch.testing.assert_close(restricted[:, query], window, atol=FLOAT32, rtol=0)


def test_a_restricted_context_of_two_layers_reaches_back_twice() -> None:
    built = build(2)
    restricted = edited(built, (RestrictContext(3),))
    with torch.no_grad():
        # Two layers of c = 3 see L (c - 1) + 1 = 5 tokens: the first three of eight are out of reach.
        other = TOKENS.clone()
        other[:, :3] = (other[:, :3] + 1) % 5
        _, activations = model.clean_pass(built, other, model.hooks_for(built, (RestrictContext(3),)))
        same = model.edited_pass(built, (RestrictContext(3),), activations)
    torch.testing.assert_close(restricted[:, -1], same[:, -1], atol=FLOAT32, rtol=0)
    assert (restricted[:, -2] - same[:, -2]).abs().max() > 1e-3


@pytest.mark.skipif(not HOOKED, reason="transformer-lens 4 makes no mixture of experts from a config")
def test_edits_from_their_layer_on_are_edits_of_the_whole_pass_with_experts_too() -> None:
    built = build(2, **NOT_IN_4["experts"])
    for layer in range(2):
        name = f"blocks.{layer}.attn.hook_z"
        expected = hooked(built, name, lambda z: z * torch.tensor([0.0, 1, 1])[:, None])
        torch.testing.assert_close(edited(built, (AblateHead(layer, 0),)), expected, atol=FLOAT32, rtol=0)
    clean, _ = model.clean_pass(built, TOKENS, ())
    torch.testing.assert_close(edited(built, (RestrictContext(8),)), clean, atol=FLOAT32, rtol=0)


@every_kind
@pytest.mark.parametrize("context", [8, 1000])
def test_a_context_as_long_as_the_sequence_changes_nothing(change: dict, context: int) -> None:
    built = build(2, **change)
    clean, _ = model.clean_pass(built, TOKENS, ())
    assert torch.equal(edited(built, (RestrictContext(context),)), clean)


@every_kind
def test_ablating_every_head_leaves_the_output_bias_of_attention(change: dict) -> None:
    built = build(2, **change)
    edit = tuple(AblateHead(1, head) for head in range(3))
    expected = hooked(built, "blocks.1.hook_attn_out", lambda x: built.blocks[1].attn.b_O.expand_as(x).detach())
    torch.testing.assert_close(edited(built, edit), expected, atol=FLOAT32, rtol=0)


@every_kind
@pytest.mark.parametrize(("layer", "head"), [(0, 0), (0, 2), (1, 1)])
def test_ablating_a_head_subtracts_what_it_writes(change: dict, layer: int, head: int) -> None:
    built = build(2, **change)
    _, cache = built.run_with_cache(TOKENS)
    z = cache[f"blocks.{layer}.attn.hook_z"][:, :, head]
    written = (z @ built.blocks[layer].attn.W_O[head]).detach()
    expected = hooked(built, f"blocks.{layer}.hook_attn_out", lambda x: x - written)
    assert written.abs().max() > 0.1
    torch.testing.assert_close(edited(built, (AblateHead(layer, head),)), expected, atol=FLOAT32, rtol=0)


@pytest.mark.parametrize("layer", [0, 1])
def test_mean_ablation_writes_the_batch_mean_of_each_position(layer: int) -> None:
    built = build(2)
    _, cache = built.run_with_cache(TOKENS)
    z = cache[f"blocks.{layer}.attn.hook_z"][:, :, 1]
    mean = sum(z[row] for row in range(len(TOKENS))) / len(TOKENS)
    shift = ((mean - z) @ built.blocks[layer].attn.W_O[1]).detach()
    expected = hooked(built, f"blocks.{layer}.hook_attn_out", lambda x: x + shift)
    torch.testing.assert_close(edited(built, (AblateHead(layer, 1, "mean"),)), expected, atol=FLOAT32, rtol=0)


@pytest.mark.parametrize("layer", [0, 1])
def test_resampling_gives_every_sequence_anothers_output(layer: int) -> None:
    built = build(2)
    _, cache = built.run_with_cache(TOKENS)
    z = cache[f"blocks.{layer}.attn.hook_z"][:, :, 1]
    others = torch.stack([z[row - 1] for row in range(len(TOKENS))])
    shift = ((others - z) @ built.blocks[layer].attn.W_O[1]).detach()
    expected = hooked(built, f"blocks.{layer}.hook_attn_out", lambda x: x + shift)
    torch.testing.assert_close(edited(built, (AblateHead(layer, 1, "resample"),)), expected, atol=FLOAT32, rtol=0)


EDITS: dict[str, Edit] = {
    "context": (RestrictContext(2),),
    "zero": (AblateHead(1, 0),),
    "mean": (AblateHead(2, 1, "mean"),),
    "resample": (AblateHead(1, 2, "resample"),),
    "two layers": (AblateHead(2, 0), AblateHead(1, 1, "mean")),
    "context and head": (AblateHead(1, 0), RestrictContext(3)),
}
every_edit = pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())


@every_edit
def test_a_pass_from_the_edited_layer_equals_the_whole_pass(edit: Edit) -> None:
    if not HOOKED and any(isinstance(part, RestrictContext) for part in edit):
        pytest.skip("in transformer-lens 4 no hook restricts a context; tests/models/test_plain_torch.py has it")
    built = build(3)
    wanted = {f"blocks.{layer}.attn.hook_z" for layer in range(3)}
    _, activations = model.clean_pass(built, TOKENS, wanted)
    hooks = [hook for part in edit for hook in hooked_pass.hooks(built, part, activations)]
    with torch.no_grad():
        whole = built.run_with_hooks(TOKENS, fwd_hooks=hooks).log_softmax(-1)
    torch.testing.assert_close(edited(built, edit), whole, atol=FLOAT32, rtol=0)


@every_edit
def test_an_edit_leaves_the_model_and_the_activations_as_they_were(edit: Edit) -> None:
    built = build(3)
    clean, activations = model.clean_pass(built, TOKENS, model.hooks_for(built, edit))
    kept = {name: activation.clone() for name, activation in activations.items()}
    state = model.weights(built)
    model.edited_pass(built, edit, activations)
    again, _ = model.clean_pass(built, TOKENS, ())
    assert torch.equal(clean, again)
    assert all(torch.equal(kept[name], activation) for name, activation in activations.items())
    assert all(torch.equal(state[name], weight) for name, weight in model.weights(built).items())
    assert not any(point.fwd_hooks for point in built.hook_dict.values())


@pytest.mark.parametrize("edit", [(AblateHead(2, 0),), (AblateHead(0, 3),)], ids=str)
def test_a_head_that_does_not_exist_is_refused_with_how_many_there_are(edit: Edit) -> None:
    built = build(2)
    clean = {f"blocks.{layer}.hook_resid_pre": torch.zeros(1, 8, 12) for layer in range(3)}
    with pytest.raises(ValueError, match=r"there is no head L\dH\d: the model has 2 layers of 3 heads, counted from 0"):
        model.edited_pass(built, edit, clean)


def test_the_clean_pass_is_the_models_own_and_gives_the_named_activations() -> None:
    built = build(2)
    names = {"blocks.0.attn.hook_pattern", "blocks.1.hook_resid_pre"}
    log_probs, activations = model.clean_pass(built, TOKENS, names)
    with torch.no_grad():
        logits, cache = built.run_with_cache(TOKENS)
    torch.testing.assert_close(log_probs, logits - logits.logsumexp(-1, keepdim=True), atol=FLOAT32, rtol=0)
    assert activations.keys() == names
    assert all(torch.equal(activations[name], cache[name]) for name in names)


def test_a_hook_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match=r"the model has no hook blocks.0.hook_nothing; it has .*hook_z"):
        model.clean_pass(build(1), TOKENS, ["hook_embed", "blocks.0.hook_nothing"])


BUILDS = f"""
import random
import numpy as np
import torch
from stagewise import architecture
from stagewise import models as model
def states():
    return random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
before = states()
for change in ({{}}, {{"seed": 5}}):
    model.build(architecture.Architecture({{**{CONFIG!r}, "n_layers": 1, **change}}), seed=3)
    model.build(architecture.minimal(4, 5), seed=3)
print([old == new for old, new in zip(before, states(), strict=True)])
"""


def test_building_leaves_every_global_generator_alone() -> None:
    """In a process of its own: the checker of these tests' type hints draws from Python's generator itself."""
    built = subprocess.run([sys.executable, "-c", BUILDS], check=True, capture_output=True, text=True)
    assert built.stdout == "[True, True, True]\n"


@pytest.mark.parametrize("made", [architecture.minimal(4, 5), architecture.full(4, 5)], ids=["minimal", "full"])
def test_a_seed_gives_the_same_weights_whatever_the_global_generator(made: Architecture) -> None:
    one = model.weights(model.build(made, seed=3))
    torch.manual_seed(99)
    again, other = (model.weights(model.build(made, seed=seed)) for seed in (3, 4))
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"no_such_field": 1}, "TransformerLens refuses the config .*no_such_field"),
        ({"use_local_attn": True}, "TransformerLens refuses the config .*(window_size must be specified|leave it out)"),
        ({"positional_embedding_type": "none"}, r"one of standard, .* got 'none'. A .*WithoutPositions"),
        ({"act_fn": "no_such_function"}, "TransformerLens refuses the config .*no_such_function"),
    ],
    ids=str,
)
def test_a_config_that_transformer_lens_refuses_is_a_value_error(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model.build(Architecture({**CONFIG, "n_layers": 1, **change}))


@pytest.mark.skipif(HOOKED, reason="a HookedTransformer has all of these")
@pytest.mark.parametrize("change", NOT_IN_4.values(), ids=NOT_IN_4.keys())
def test_what_transformer_lens_4_would_ignore_is_refused(change: dict) -> None:
    with pytest.raises(ValueError, match=r"TransformerLens refuses .*take transformer-lens 3.9 \(pip install"):
        model.build(Architecture({**CONFIG, "n_layers": 1, **change}))


def test_without_positions_the_order_of_the_past_does_not_count() -> None:
    made = Architecture({**CONFIG, "n_layers": 1}, WithoutPositions(GaussianInit(0.4)))
    built, backwards = model.build(made), TOKENS.clone()
    backwards[:, :-1] = TOKENS[:, :-1].flip(1)
    one, other = (model.clean_pass(built, tokens, ())[0][:, -1] for tokens in (TOKENS, backwards))
    torch.testing.assert_close(one, other, atol=FLOAT32, rtol=0)
    assert not model.parameters(built)["pos_embed.W_pos"].requires_grad


def test_without_positions_needs_learned_ones() -> None:
    made = Architecture({**CONFIG, "n_layers": 1, "positional_embedding_type": "rotary"}, WithoutPositions())
    with pytest.raises(ValueError, match=r'needs positional_embedding_type = "standard", .* got "rotary"'):
        model.build(made)


def test_a_whole_config_of_a_transformer_lens_model_builds() -> None:
    whole = build(1).cfg.to_dict()
    assert model.build(Architecture(whole)).cfg.to_dict() == whole


def test_saved_weights_load_and_stay_apart_from_the_model() -> None:
    built, other = build(1), model.build(Architecture({**CONFIG, "n_layers": 1}))
    state = model.weights(built)
    model.load(other, state)
    assert torch.equal(other(TOKENS), built(TOKENS))
    with torch.no_grad():
        other.W_E.zero_()
    assert torch.equal(state["embed.W_E"], built.W_E)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.pop("embed.W_E"), "the weights do not fit the model: embed.W_E: missing"),
        (lambda state: state.update(extra=torch.zeros(1)), "extra: not a parameter of the model"),
        (
            lambda state: state.update({"embed.W_E": torch.zeros(4, 12)}),
            r"embed.W_E: \(4, 12\) saved, \(5, 12\) in the model",
        ),
    ],
    ids=["missing", "unknown", "shape"],
)
def test_weights_that_do_not_fit_are_refused_and_nothing_is_copied(change: Callable, message: str) -> None:
    built = build(1)
    before = model.weights(built)
    state = {name: weight + 1 for name, weight in before.items()}
    change(state)
    with pytest.raises(ValueError, match=message):
        model.load(built, state)
    assert all(torch.equal(before[name], weight) for name, weight in model.weights(built).items())
