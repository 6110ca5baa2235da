"""Hugging Face models through a bridge: every edit against the Hugging Face model itself, without any bridge."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from stagewise import models as model
from stagewise.intervention import AblateHead, Edit, RestrictContext
from stagewise.models import bridge_edits as bridge
from stagewise.models import huggingface
from stagewise.models.edits import cut_pattern, kept

FLOAT32 = 1e-4
"""Log-probabilities of order ten, sums in another order."""

UNCHANGED = 1e-5
LENGTH = 12
TOKENS = torch.randint(32, (5, LENGTH), generator=torch.Generator().manual_seed(0))
KINDS = ("GPT2", "GPTNeoX", "Llama", "Gemma2", "GPTJ")
every_kind = pytest.mark.parametrize("kind", KINDS)
ALSO = ("Bloom", "OPT", "Mixtral")
"""ALiBi; a kernel that shows no pattern unless it is the eager one; experts that a bridge's state dict leaves out."""

Make = Callable[..., nn.Module]


def bridged(plain: nn.Module) -> nn.Module:
    """A bridge with the weights of a Hugging Face model, which stays as it is."""
    built = model.build(huggingface.described(plain.config.to_dict()))
    model.load(built, plain.state_dict())
    return built


def edited(built: nn.Module, edit: Edit) -> Tensor:
    _, activations = model.clean_pass(built, TOKENS, model.hooks_for(built, edit))
    return model.edited_pass(built, edit, activations)


def masked(plain: nn.Module, context: int) -> Tensor:
    """Hugging Face's own forward pass with its own additive mask: log-probabilities."""
    keep = kept(LENGTH, LENGTH, context)
    mask = torch.zeros(LENGTH, LENGTH).masked_fill(~keep, torch.finfo(torch.float32).min)
    with torch.no_grad():
        return plain(TOKENS, attention_mask=mask.expand(len(TOKENS), 1, -1, -1)).logits.log_softmax(-1)


def projections(plain: nn.Module) -> list[tuple[Tensor, bool]]:
    """The output weights of attention in each layer, and whether their rows are the inputs."""
    found = {"c_proj.weight": True, "dense.weight": False, "o_proj.weight": False, "out_proj.weight": False}
    return [
        (weight, rows)
        for name, weight in plain.named_parameters()
        for ending, rows in found.items()
        if name.endswith(ending) and ".mlp." not in name
    ]


@pytest.mark.parametrize("kind", KINDS + ALSO)
def test_the_clean_pass_is_the_hugging_face_models_own(kind: str, hugging_face: Make) -> None:
    plain = hugging_face(kind)
    log_probs, _ = model.clean_pass(bridged(plain), TOKENS, ())
    with torch.no_grad():
        expected = plain(TOKENS).logits.log_softmax(-1)
    assert expected.std() > 0.5
    torch.testing.assert_close(log_probs, expected, atol=UNCHANGED, rtol=0)


@pytest.mark.parametrize("kind", KINDS + ALSO)
def test_patterns_sum_to_one_over_the_keys_before_the_query(kind: str, hugging_face: Make) -> None:
    names = [f"blocks.{layer}.attn.hook_pattern" for layer in range(2)]
    _, activations = model.clean_pass(bridged(hugging_face(kind)), TOKENS, names)
    for name in names:
        pattern = activations[name]
        assert pattern.shape == (5, 4, LENGTH, LENGTH)
        torch.testing.assert_close(pattern.sum(-1), torch.ones(5, 4, LENGTH), atol=UNCHANGED, rtol=0)
        assert pattern.triu(1).max() == 0


@pytest.mark.parametrize("kind", KINDS + ALSO)
def test_a_context_as_long_as_the_sequence_changes_nothing(kind: str, hugging_face: Make) -> None:
    built = bridged(hugging_face(kind))
    clean, _ = model.clean_pass(built, TOKENS, ())
    torch.testing.assert_close(edited(built, (RestrictContext(LENGTH),)), clean, atol=UNCHANGED, rtol=0)


@every_kind
@pytest.mark.parametrize("way", ["as tried", "z"])
@pytest.mark.parametrize("context", [1, 3, 7])
def test_a_restricted_context_is_hugging_faces_own_masked_attention_in_every_layer(
    kind: str, context: int, way: str, hugging_face: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = hugging_face(kind)
    built = bridged(plain)
    if way == "z":
        monkeypatch.setitem(bridge._ROUTES, built, "z")
    expected = masked(plain, context)
    assert (expected - masked(plain, LENGTH)).abs().max() > 0.1
    torch.testing.assert_close(edited(built, (RestrictContext(context),)), expected, atol=FLOAT32, rtol=0)


@pytest.mark.parametrize(("kind", "name"), [("Bloom", "self_attention"), ("OPT", "self_attn")])
def test_a_restricted_context_is_masked_attention_where_the_model_takes_no_such_mask(
    kind: str, name: str, hugging_face: Make
) -> None:
    """Bloom and OPT make their own masks: each layer's attention is handed another one."""
    plain = hugging_face(kind)
    restricted = edited(bridged(plain), (RestrictContext(3),))
    mask = torch.zeros(LENGTH, LENGTH).masked_fill(~kept(LENGTH, LENGTH, 3), torch.finfo(torch.float32).min)

    def hand_over(module: nn.Module, arguments: tuple, named: dict) -> tuple[tuple, dict]:
        assert "attention_mask" in named
        return arguments, {**named, "attention_mask": mask.expand(len(TOKENS), 1, -1, -1)}

    for path, module in plain.named_modules():
        if path.endswith(name):
            module.register_forward_pre_hook(hand_over, with_kwargs=True)
    with torch.no_grad():
        expected = plain(TOKENS).logits.log_softmax(-1)
    torch.testing.assert_close(restricted, expected, atol=FLOAT32, rtol=0)


def test_a_bridge_that_computes_something_else_is_refused() -> None:
    """Falcon with ALiBi, in 3.9 and in 4.3: its bridge scales the positions as it scales the scores."""
    from transformers import FalconConfig

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 32}
    with pytest.raises(ValueError, match="FalconForCausalLM does not compute what the model does: logits differ by"):
        model.build(huggingface.described(FalconConfig(**sizes, alibi=True).to_dict()))


def test_weights_that_are_not_finite_load_as_they_are(hugging_face: Make) -> None:
    built, state = bridged(hugging_face("GPT2")), dict(hugging_face("GPT2").state_dict())
    state["transformer.h.0.mlp.c_fc.bias"] = torch.full((128,), torch.nan)
    model.load(built, state)
    assert model.clean_pass(built, TOKENS, ())[0].isnan().all()


def test_a_model_without_attention_is_refused() -> None:
    from transformers import MambaConfig

    with pytest.raises(ValueError, match="a model of the type mamba has no attention heads"):
        huggingface.described(MambaConfig(hidden_size=32, num_hidden_layers=2).to_dict())


@every_kind
def test_the_residual_stream_after_every_layer_is_hugging_faces_own(kind: str, hugging_face: Make) -> None:
    plain = hugging_face(kind, n_layer=3) if kind in ("GPT2", "GPTJ") else hugging_face(kind, num_hidden_layers=3)
    built = bridged(plain)
    keep = kept(LENGTH, LENGTH, 3)
    mask = torch.zeros(LENGTH, LENGTH).masked_fill(~keep, torch.finfo(torch.float32).min).expand(5, 1, -1, -1)
    seen = {}
    looks = [(f"blocks.{k}.hook_resid_post", lambda x, hook, k=k: seen.__setitem__(k, x.clone())) for k in range(3)]
    with torch.no_grad():
        expected = plain(TOKENS, attention_mask=mask, output_hidden_states=True).hidden_states
        built.run_with_hooks(TOKENS, fwd_hooks=[*bridge._restrict(built, TOKENS, [], 3), *looks])
    for layer in range(2):  # Hugging Face shows the last layer's after the final norm
        torch.testing.assert_close(seen[layer], expected[layer + 1], atol=FLOAT32, rtol=FLOAT32)


@every_kind
@pytest.mark.parametrize(("layer", "head"), [(0, 0), (0, 3), (1, 2)])
def test_ablating_a_head_subtracts_what_it_writes(kind: str, layer: int, head: int, hugging_face: Make) -> None:
    plain = hugging_face(kind)
    ablated = edited(bridged(plain), (AblateHead(layer, head),))
    weight, rows = projections(plain)[layer]
    with torch.no_grad():
        clean = plain(TOKENS).logits.log_softmax(-1)
        (weight if rows else weight.T)[8 * head : 8 * head + 8] = 0.0
        expected = plain(TOKENS).logits.log_softmax(-1)
    assert (expected - clean).abs().max() > 0.1
    torch.testing.assert_close(ablated, expected, atol=FLOAT32, rtol=0)


@pytest.mark.parametrize("kind", ["mean", "resample"])
def test_a_mean_and_another_sequences_output_are_put_in_place(kind: str, hugging_face: Make) -> None:
    built = bridged(hugging_face("GPTNeoX"))
    name = "blocks.1.attn.hook_z"
    _, activations = model.clean_pass(built, TOKENS, [name])
    z = activations[name].clone()
    z[:, :, 2] = z[:, :, 2].mean(0) if kind == "mean" else torch.stack([z[row - 1, :, 2] for row in range(5)])
    with torch.no_grad():
        expected = built.run_with_hooks(TOKENS, fwd_hooks=[(name, lambda x, hook: z)]).log_softmax(-1)
    torch.testing.assert_close(edited(built, (AblateHead(1, 2, kind),)), expected, atol=FLOAT32, rtol=0)


@every_kind
def test_a_head_is_ablated_inside_a_restricted_context(kind: str, hugging_face: Make) -> None:
    plain = hugging_face(kind)
    both = edited(bridged(plain), (AblateHead(1, 2), RestrictContext(3)))
    weight, rows = projections(plain)[1]
    with torch.no_grad():
        (weight if rows else weight.T)[16:24] = 0.0
    torch.testing.assert_close(both, masked(plain, 3), atol=FLOAT32, rtol=0)


@pytest.mark.parametrize(
    ("kind", "way"),
    [("GPT2", "scores"), ("GPTNeoX", "scores"), ("Llama", "scores"), ("Gemma2", "scores"), ("GPTJ", "z")],
)
def test_dead_hooks_are_found_out(kind: str, way: str, hugging_face: Make) -> None:
    assert bridge.route(bridged(hugging_face(kind))) == way


@every_kind
def test_an_edit_leaves_the_bridge_as_it_was(kind: str, hugging_face: Make) -> None:
    built = bridged(hugging_face(kind))
    before, clean = model.weights(built), model.clean_pass(built, TOKENS, ())[0]
    edited(built, (RestrictContext(2), AblateHead(0, 1)))
    assert all(torch.equal(before[name], weight) for name, weight in model.weights(built).items())
    assert torch.equal(model.clean_pass(built, TOKENS, ())[0], clean)


@pytest.mark.parametrize("kind", KINDS + ALSO)
def test_weights_load_by_hugging_faces_names_and_by_the_bridges(kind: str, hugging_face: Make) -> None:
    one, other = bridged(hugging_face(kind)), bridged(hugging_face(kind, seed=1))
    expected = model.clean_pass(one, TOKENS, ())[0]
    assert (model.clean_pass(other, TOKENS, ())[0] - expected).abs().max() > 1
    model.load(other, model.weights(one))
    torch.testing.assert_close(model.clean_pass(other, TOKENS, ())[0], expected, atol=UNCHANGED, rtol=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.pop("transformer.h.0.attn.c_proj.weight"), "h.0.attn.c_proj.weight: missing"),
        (lambda state: state.update(extra=torch.zeros(1)), "extra: not a parameter of the model"),
        (
            lambda state: state.update({"transformer.wpe.weight": torch.zeros(4, 32)}),
            r"wpe.weight: \(4, 32\) saved, \(32, 32\) in the model",
        ),
    ],
    ids=["missing", "unknown", "shape"],
)
def test_weights_that_do_not_fit_are_refused_and_nothing_is_copied(
    change: Callable, message: str, hugging_face: Make
) -> None:
    built = bridged(hugging_face("GPT2"))
    before = model.weights(built)
    state = dict(hugging_face("GPT2", seed=1).state_dict())
    change(state)
    with pytest.raises(ValueError, match=message):
        model.load(built, state)
    assert all(torch.equal(before[name], weight) for name, weight in model.weights(built).items())


def test_a_pattern_cut_after_the_softmax_is_one_cut_before_it() -> None:
    scores = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(0)).masked_fill(
        torch.ones(6, 6, dtype=torch.bool).triu(1), -torch.inf
    )
    expected = scores.masked_fill(torch.ones(6, 6, dtype=torch.bool).tril(-2), -torch.inf).softmax(-1)
    torch.testing.assert_close(cut_pattern(scores.softmax(-1), 2), expected)


def test_a_pattern_with_nothing_left_inside_is_refused() -> None:
    pattern = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    with pytest.raises(ValueError, match="puts all its attention outside the last 1 positions"):
        cut_pattern(pattern, 1)
