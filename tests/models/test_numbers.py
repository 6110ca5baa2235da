"""A device that is not there is refused; passes in bfloat16 are near those in float32; equal is equal to rounding."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from stagewise import models
from stagewise.intervention import AblateHead, Edit, RestrictContext
from stagewise.loss import kl_divergence
from stagewise.models._edits import leaves_attention, restrict_pattern
from stagewise.models._lean_reading import rotary_hooks
from stagewise.models._numbers import SAME, check_device, check_dtype, products_in, same, widened
from stagewise.models.lean import agreeing_weights
from tests.models.conftest import of_all

ROUNDING = torch.finfo(torch.bfloat16).eps
"""Between a number and the next one, of order one."""

ROUNDINGS = 10
"""A pass rounds the weights once, and the activations at each of some ten products: by so many times as much divergence
as from rounded weights alone, at most; 1 to 4 times as much as they come."""

NEAR = 0.05
"""Of activations behind one layer, in norm: several roundings of 2^-8 each."""

EDITS: dict[str, Edit] = {
    "context": (RestrictContext(2),),
    "mean": (AblateHead(1, 1, "mean"),),
    "context and head": (AblateHead(1, 0), RestrictContext(3)),
}

NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")


def test_a_dtype_that_nothing_is_computed_in_is_refused_with_the_list() -> None:
    check_dtype("bfloat16")
    with pytest.raises(ValueError, match="dtype is one of float32, bfloat16, got 'float16'"):
        check_dtype("float16")


def test_products_are_in_the_dtype_and_float32_switches_an_autocast_around_it_off() -> None:
    x = torch.ones(2, 2)
    with products_in("bfloat16", "cpu"):
        assert (x @ x).dtype == torch.bfloat16
        with products_in("float32", "cpu"):
            assert (x @ x).dtype == torch.float32
    assert (x @ x).dtype == torch.float32


def test_numbers_of_half_the_width_are_widened_and_no_others() -> None:
    kinds = {torch.bfloat16: torch.float32, torch.float16: torch.float32, torch.float64: torch.float64}
    for kind, expected in kinds.items():
        assert widened(torch.tensor(0.5, dtype=kind)).dtype == expected
    x = torch.tensor(0.5)
    assert widened(x) is x


def rounded_weights(one: Any) -> float:
    """Mean KL, nats, from a model's predictions to those of its weights rounded to bfloat16, and nothing else."""
    state, expected = models.weights(one.built), one.clean()
    models.load(one.built, {name: weight.bfloat16().float() for name, weight in state.items()})
    found = one.clean()
    models.load(one.built, state)
    return kl_divergence(expected, found).mean().item()


@pytest.mark.one_of(4)
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=NO_GPU)])
def test_a_clean_pass_is_near_that_in_float32_and_shown_in_float32(
    any_kind: str, device: str, subject: Callable[..., Any]
) -> None:
    one = subject(any_kind)
    built, tokens = one.built.to(device, print_details=False), one.tokens.to(device)
    hooks = [name for name in ("blocks.1.hook_resid_pre", "blocks.1.attn.hook_z") if name in built.hook_dict]
    expected, whole = models.clean_pass(built, tokens, hooks)
    found, narrow = models.clean_pass(built, tokens, hooks, dtype="bfloat16")
    built.to("cpu", print_details=False)
    assert {found.dtype, *(narrow[name].dtype for name in hooks)} == {torch.float32}
    assert 0 < kl_divergence(expected, found).mean() < ROUNDINGS * rounded_weights(one)
    for name in hooks:
        assert (narrow[name] - whole[name]).norm() < NEAR * whole[name].norm()


@pytest.mark.one_of(4)
@pytest.mark.each_value
@pytest.mark.parametrize("any_edit", EDITS.values(), ids=list(EDITS))
def test_an_edited_pass_is_near_that_in_float32(any_kind: str, any_edit: Edit, subject: Callable[..., Any]) -> None:
    one = subject(any_kind)
    hooks = models.hooks_for(one.built, any_edit)
    models.check_edits(one.built, {type(part) for part in any_edit}, one.tokens)
    _, whole = models.clean_pass(one.built, one.tokens, hooks)
    _, narrow = models.clean_pass(one.built, one.tokens, hooks, dtype="bfloat16")
    expected = models.edited_pass(one.built, any_edit, whole, tokens=one.tokens)
    found = models.edited_pass(one.built, any_edit, narrow, tokens=one.tokens, dtype="bfloat16")
    assert found.dtype == torch.float32
    assert 0 < kl_divergence(expected, found).mean() < ROUNDINGS * rounded_weights(one)


def test_how_a_bridge_restricts_contexts_is_tried_in_float32(bridged_kind: str, subject: Callable[..., Any]) -> None:
    from stagewise.models._bridge_edits import _ROUTES, _route

    built = subject(bridged_kind).built
    expected = _route(built)
    del _ROUTES[built]
    with products_in("bfloat16", "cpu"):
        assert _route(built) == expected


def test_rotary_angles_stay_in_float32(subject: Callable[..., Any]) -> None:
    one = subject("Llama")
    hooks = rotary_hooks(one.built)
    _, whole = models.clean_pass(one.built, one.tokens, hooks)
    _, narrow = models.clean_pass(one.built, one.tokens, hooks, dtype="bfloat16")
    assert len(hooks) == 4
    assert all(torch.equal(narrow[name], whole[name]) for name in hooks)


@NO_GPU
@pytest.mark.parametrize("name", ["rotary", "adjacent rotary", "GPTJ"])
def test_rotary_models_agree_with_their_lean_pass_on_a_gpu(name: str, subject: Callable[..., Any]) -> None:
    one = subject(name)
    built, tokens = one.built.to("cuda", print_details=False), one.tokens.to("cuda")
    hooks = models.hooks_for(built, (AblateHead(0, 0),)) | rotary_hooks(built)
    log_probs, clean = models.clean_pass(built, tokens, hooks)
    agree = agreeing_weights(built, clean, *of_all(log_probs))
    built.to("cpu", print_details=False)
    assert agree is not None


def test_rows_of_a_rounded_pattern_are_no_attention_sinks() -> None:
    scores = torch.randn(4, 3, 40, 40, generator=torch.Generator().manual_seed(0))
    scores = scores.masked_fill(~torch.ones(40, 40).tril().bool(), -math.inf)
    whole, pattern = scores.softmax(-1), scores.softmax(-1).bfloat16()
    assert float((1 - pattern.float().sum(-1)).abs().max()) > 1e-4  # what in float32 is a sink
    restricted = restrict_pattern(pattern, 5)
    assert restricted.dtype == torch.bfloat16
    assert leaves_attention(pattern, 5)
    torch.testing.assert_close(restricted.float(), restrict_pattern(whole, 5), rtol=2 * ROUNDING, atol=ROUNDING**2)


def test_a_device_that_holds_numbers_is_taken() -> None:
    check_device("cpu")
    check_device(torch.device("cpu", 0))


@pytest.mark.parametrize("device", ["gpu", "cuda:99", "meta"])
def test_a_device_that_is_not_there_is_refused_by_name(device: str) -> None:
    with pytest.raises(ValueError, match=f'torch sees no device "{device}" here .*: take another one'):
        check_device(device)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_scale_is_the_largest_entry(scale: float) -> None:
    other = scale * torch.tensor([0.001, -2.0])
    for part, expected in ((0.9, True), (1.1, False)):
        assert same(other + torch.tensor([part * SAME * 2 * scale, 0.0]), other) is expected


def test_of_what_cancelled_the_rounding_is_that_of_its_parts() -> None:
    one, other, of = torch.tensor([0.0]), torch.tensor([1e-3]), torch.tensor([100.0, -100.0])
    assert not same(one, other)
    assert same(one, other, of)


def test_another_shape_and_numbers_that_are_not_finite_are_never_the_same() -> None:
    one = torch.ones(2)
    assert not same(one, torch.ones(2, 1))
    assert not same(one * torch.nan, one)
    assert not same(one, one * torch.nan)
