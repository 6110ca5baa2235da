"""Held attention: even over given keys that a query sees, by every way in which a model runs, and saved with it."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from stagewise import models
from stagewise.intervention import AblateHead, Edit, RestrictContext
from stagewise.models import _trial as trial
from stagewise.models import lean as lean
from stagewise.models._edits import replacement
from stagewise.models._held_attention import HELD_KEYS, evenly, held_keys, hold, released
from stagewise.models._lean_reading import rotary_hooks
from tests.models.conftest import of_all

SAME = 1e-5
"""Sums of float32 numbers of order one in another order."""

HEAD, OTHER, LENGTH = 2, 0, 9
PATTERN, VALUES, Z = (f"blocks.0.attn.hook_{name}" for name in ("pattern", "v", "z"))

EDITS: dict[str, Edit] = {
    "context 2": (RestrictContext(2),),
    "context 4 and a head": (RestrictContext(4), AblateHead(0, 1, "mean")),
    "a held head": (AblateHead(1, HEAD, "mean"),),
    "another head, below": (AblateHead(0, OTHER, "resample"),),
}

Make = Callable[..., Any]


BACK = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)
KEYS = (BACK == 3) | (BACK == 6) | (BACK == -1)
"""The keys three and six positions back, and one that comes later, which no query sees."""


@pytest.fixture
def held(config_kind: str, subject: Make) -> Iterator[Any]:
    """A model of two layers with a head held in both; they are let go of afterwards, for it is made once."""
    one = subject(config_kind, 2)
    keys = torch.zeros(4, LENGTH, LENGTH, dtype=torch.bool)
    keys[HEAD] = KEYS
    hold(one.built, {0: keys, 1: keys})
    yield one
    hold(one.built, {})


def test_a_held_head_attends_evenly_and_elsewhere_as_its_weights_say(held: Any, config_kind: str) -> None:
    _, found = models.clean_pass(held.built, held.tokens, [PATTERN, VALUES, Z])
    with released(held.built):
        _, free = models.clean_pass(held.built, held.tokens, [PATTERN])
    window = 5 if config_kind == "local attention" else LENGTH
    keys = KEYS & (BACK >= 0) & (window > BACK)
    even, marked = keys / keys.sum(-1, keepdim=True).clamp(min=1), keys.any(-1)
    expected = torch.where(marked[:, None], even, free[PATTERN][:, HEAD])
    assert torch.equal(found[PATTERN][:, HEAD], expected)
    others = [head for head in range(4) if head != HEAD]
    assert torch.equal(found[PATTERN][:, others], free[PATTERN][:, others])
    values = found[VALUES][:, :, HEAD * found[VALUES].shape[2] // 4]
    torch.testing.assert_close(found[Z][:, :, HEAD], expected @ values, atol=SAME, rtol=SAME)


@pytest.mark.one_of(4)
def test_in_a_context_without_its_keys_it_attends_as_its_weights_say(held: Any) -> None:
    """Keys three back are not among the last three positions, so that nothing is held."""
    edit = (RestrictContext(3),)
    expected_of_held = held.edited(edit)
    with released(held.built):
        expected = held.edited(edit)
    torch.testing.assert_close(expected_of_held, expected, atol=SAME, rtol=SAME)
    with released(held.built):
        free = held.edited((RestrictContext(4),))
    assert (held.edited((RestrictContext(4),)) - free).abs().max() > SAME


@pytest.mark.one_of(4)
def test_lean_passes_hold_it_too(held: Any, config_kind: str) -> None:
    names = rotary_hooks(held.built).union(*(models.hooks_for(held.built, edit) for edit in EDITS.values()))
    log_probs, clean = models.clean_pass(held.built, held.tokens, names)
    weights = lean.agreeing_weights(held.built, clean, *of_all(log_probs))
    assert (weights is None) == (config_kind in ("alibi", "experts"))
    if weights is None:
        return
    for scored in (torch.ones_like(held.tokens, dtype=torch.bool), (held.tokens + torch.arange(LENGTH)) % 3 > 0):
        passes = lean.LeanPass(weights, clean, scored, functools.partial(replacement, clean=clean))
        for name, edit in EDITS.items():
            with torch.inference_mode():
                predicted = weights.unembedded(passes.residual(edit)).log_softmax(-1)
            torch.testing.assert_close(predicted, held.edited(edit)[scored], atol=SAME, rtol=SAME, msg=name)


@pytest.mark.parametrize("config_kind", ["LN and MLP", "grouped queries"], indirect=True)
def test_edits_of_a_model_with_a_held_head_are_tried_without_it(held: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "_TRIED", {})
    models.check_edits(held.built, [AblateHead, RestrictContext], held.tokens)
    assert trial._TRIED[held.built] == {AblateHead, RestrictContext}
    assert list(held_keys(held.built)) == [0, 1]


@pytest.mark.parametrize("config_kind", ["attention only", "as Llama"], indirect=True)
def test_what_is_held_is_saved_with_the_weights_and_loaded_with_them(held: Any) -> None:
    saved, expected = models.weights(held.built), held.clean()
    name = f"blocks.1.{HELD_KEYS}"
    assert saved[name].dtype == torch.bool
    models.load(held.built, {each: weight for each, weight in saved.items() if each != name})
    assert list(held_keys(held.built)) == [0]
    assert not torch.equal(held.clean(), expected)
    models.load(held.built, saved)
    assert torch.equal(held.clean(), expected)
    for wrong in ({**saved, name: saved[name][:1]}, {**saved, f"blocks.7.{HELD_KEYS}": saved[name]}):
        with pytest.raises(ValueError, match=r"held_keys .* saved, the model has 2 layers, which hold \(4, 9, 9\)"):
            models.load(held.built, wrong)


def test_scores_below_a_hidden_key_are_what_they_were() -> None:
    scores = torch.tensor([[1.0, -torch.inf, 3.0], [2.0, 0.0, -torch.inf]])
    keys = torch.tensor([[True, True, False], [False, False, True]])
    assert evenly(scores, keys).softmax(-1)[0].tolist() == [1, 0, 0]
    assert torch.equal(evenly(scores, keys)[1], scores[1])


def test_scores_of_held_queries_have_no_gradient_and_those_of_others_have() -> None:
    scores = torch.randn(2, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    pattern = evenly(scores, torch.tensor([[True, True, False], [False, False, False]])).softmax(-1)
    (gradient,) = torch.autograd.grad((pattern * torch.arange(3)).sum(), scores)
    assert not gradient[0].any()
    assert gradient[1].all()
