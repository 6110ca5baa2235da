"""Weights by name: copied, put back, refused where they do not fit; of configs and of bridges."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.init import GaussianInit
from stagewise.models._weights import average_over_heads, is_finite, keep_heads_alike, shapes
from tests.models.small_families import LAYERS, family_of

SAME = 1e-5
"""Log-probabilities of order one, sums in another order."""

CONFIG = {"d_model": 12, "d_head": 4, "n_heads": 3, "n_ctx": 8, "d_vocab": 5, "act_fn": "relu", "d_mlp": 8}
TOKENS = torch.randint(5, (6, 8), generator=torch.Generator().manual_seed(0))
LONGER = torch.randint(32, (5, 12), generator=torch.Generator().manual_seed(0))

BRIDGED = ("GPT2", "GPTNeoX", "Llama", "Gemma2", "GPTJ", "Bloom", "OPT", "Mixtral")

Make = Callable[..., nn.Module]


def build(n_layers: int = 1, **change: object) -> models.Model:
    """A model whose parameters are all random, biases too."""
    built = models.build(Architecture({**CONFIG, "n_layers": n_layers, **change}, GaussianInit(0.4)))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return built


def bridged(plain: nn.Module) -> models.Model:
    """A bridge with the weights of a Hugging Face model, which stays as it is."""
    built = models.build(models.described(plain))
    models.load(built, plain.state_dict())
    return built


def test_saved_weights_load_and_stay_apart_from_the_model() -> None:
    built, other = build(1), models.build(Architecture({**CONFIG, "n_layers": 1}))
    state = models.weights(built)
    models.load(other, state)
    assert torch.equal(other(TOKENS), built(TOKENS))
    with torch.no_grad():
        models.parameters(other)["embed.W_E"].zero_()
    assert torch.equal(state["embed.W_E"], models.parameters(built)["embed.W_E"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.pop("embed.W_E"), "the weights do not fit the model: embed.W_E: missing"),
        (lambda state: state.update(extra=torch.zeros(1)), "extra: not a parameter of the model"),
        (
            lambda state: state.update({"embed.W_E": torch.zeros(4, 12)}),
            r"embed.W_E: \(4, 12\) saved, \(5, 12\) in the model",
        ),
        (lambda state: state.update({"embed.W_E": state["embed.W_E"] * 1j}), "embed.W_E: torch.complex64, no real"),
        (
            lambda state: state.update({"embed.W_E": state["embed.W_E"].to(torch.int8)}),
            "embed.W_E: torch.int8, no real",
        ),
    ],
    ids=["missing", "unknown", "shape", "complex", "whole"],
)
def test_weights_that_do_not_fit_are_refused_and_nothing_is_copied(change: Callable[..., Any], message: str) -> None:
    built = build(1)
    state = {name: weight + 1 for name, weight in models.weights(built).items()}
    change(state)
    assert_refused_whole(built, state, message)


def assert_refused_whole(built: models.Model, state: dict[str, Tensor], message: str) -> None:
    before = models.weights(built)
    with pytest.raises(ValueError, match=message):
        models.load(built, state)
    assert all(torch.equal(before[name], weight) for name, weight in models.weights(built).items())


def test_weights_that_are_not_finite_load_as_they_are(hugging_face: Make) -> None:
    built, state = bridged(hugging_face("GPT2")), dict(hugging_face("GPT2").state_dict())
    state["transformer.h.0.mlp.c_fc.bias"] = torch.full((128,), torch.nan)
    models.load(built, state)
    assert models.clean_pass(built, LONGER, ())[0].isnan().all()


@pytest.mark.one_of(3)
@pytest.mark.parametrize("kind", BRIDGED)
def test_weights_load_by_hugging_faces_names_and_by_the_bridges(kind: str, hugging_face: Make) -> None:
    one, other = bridged(hugging_face(kind)), bridged(hugging_face(kind, seed=1))
    expected = models.clean_pass(one, LONGER, ())[0]
    assert (models.clean_pass(other, LONGER, ())[0] - expected).abs().max() > 1
    models.load(other, models.weights(one))
    torch.testing.assert_close(models.clean_pass(other, LONGER, ())[0], expected, atol=SAME, rtol=0)


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.pop("transformer.h.0.attn.c_proj.weight"), "h.0.attn.c_proj.weight: missing"),
        (lambda state: state.update(extra=torch.zeros(1)), "extra: not a parameter of the model"),
        (
            lambda state: state.update({"transformer.wpe.weight": torch.zeros(4, 32)}),
            r"wpe.weight: \(4, 32\) saved, \(32, 32\) in the model",
        ),
        (
            lambda state: state.update({"transformer.wpe.weight": torch.ones(32, 32, dtype=torch.int8)}),
            "wpe.weight: torch.int8, no real numbers",
        ),
    ],
    ids=["missing", "unknown", "shape", "whole"],
)
def test_weights_that_do_not_fit_a_bridge_are_refused_and_nothing_is_copied(
    change: Callable[..., Any], message: str, hugging_face: Make
) -> None:
    state = dict(hugging_face("GPT2", seed=1).state_dict())
    change(state)
    assert_refused_whole(bridged(hugging_face("GPT2")), state, message)


def gradients(built: models.Model) -> dict[str, Tensor]:
    return {name: weight.grad for name, weight in models.parameters(built).items() if weight.grad is not None}


def test_the_mean_over_heads_takes_the_place_of_every_heads_gradient() -> None:
    built = build()
    (built(TOKENS) ** 2).sum().backward()
    before = {name: gradient.clone() for name, gradient in gradients(built).items()}
    average_over_heads(built, ["blocks.0.attn.W_V"])
    after = gradients(built)
    changed = [name for name, gradient in after.items() if not torch.equal(gradient, before[name])]
    assert changed == ["blocks.0.attn.W_V"]
    if models.has_hooked_transformer():  # [head d_model d_head]
        expected = before[changed[0]][:3].sum(0) / 3
        assert all(torch.allclose(after[changed[0]][head], expected) for head in range(3))


@pytest.mark.parametrize("left", [[], [0], [0, 1, 2]], ids=str)
def test_heads_are_kept_alike_but_for_those_that_are_parted(left: list[int]) -> None:
    built, parted = build(), {(0, head) for head in left}
    before = models.weights(built)
    keep_heads_alike(built, ["blocks.0.attn.W_Q"], parted)
    after = models.weights(built)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    first = min({0, 1, 2}.difference(left), default=0)
    expected = [before["blocks.0.attn.W_Q"][head if head in left else first] for head in range(3)]
    assert torch.equal(after["blocks.0.attn.W_Q"], torch.stack(expected))
    assert changed == ({"blocks.0.attn.W_Q"} if len(left) < 3 else set())


def test_shapes_are_those_of_the_copies() -> None:
    built = build()
    assert shapes(built) == {name: weight.shape for name, weight in models.weights(built).items()}
    assert shapes(built)["blocks.0.attn.W_Q"] == (3, 12, 4)


def test_a_hugging_face_model_in_memory_keeps_the_buffers_that_it_saves() -> None:
    model = family_of("apertus").small()
    named = models.weights(model)
    assert {name for name in named if name.endswith(".act_fn.beta")} == {
        f"model.layers.{k}.mlp.act_fn.beta" for k in range(LAYERS)
    }
    models.load(models.build(models.described(model)), named)


def test_infinities_that_cancel_are_not_finite() -> None:
    assert is_finite(torch.ones(3))
    assert not is_finite(torch.tensor([1, torch.inf, -torch.inf]))
