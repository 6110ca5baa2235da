"""The lean pass gives what hooks give, on every kind of model that it agrees with, and refuses the others."""

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.intervention import AblateHead, AblateMLP, Edit, RestrictContext
from stagewise.models import lean as lean
from stagewise.models._bridge_loading import wrapped
from stagewise.models._edits import replacement
from stagewise.models._lean_reading import rotary_hooks, shown_hooks
from stagewise.models._lean_weights import Layer, LeanWeights, Norm, Projection
from stagewise.models.lean import SHORT, ScoredPositions, attend, project
from tests.models.conftest import CONFIG, HOOKED, ROTARY, of_all
from tests.models.small_families import family_of

SAME = 1e-5
"""Sums of float32 numbers of order one in another order."""

UNKNOWN = {"alibi", "Bloom", "Mixtral", "experts"}
"""What the lean pass does not compute with: positions in the scores, mixtures of experts."""

EDITS: dict[str, Edit] = {
    "context 1": (RestrictContext(1),),
    "context 3": (RestrictContext(3),),
    "whole context": (RestrictContext(99),),
    "zero, first layer": (AblateHead(0, 1, "zero"),),
    "mean, first layer": (AblateHead(0, 2, "mean"),),
    "resample, last layer": (AblateHead(1, 3, "resample"),),
    "mean, last layer": (AblateHead(1, 0, "mean"),),
    "two layers": (AblateHead(0, 1, "mean"), AblateHead(1, 2, "zero")),
    "context and head": (RestrictContext(2), AblateHead(1, 0, "mean")),
}

OF_MLPS: dict[str, Edit] = {
    "zero MLP, first layer": (AblateMLP(0),),
    "mean MLP, last layer": (AblateMLP(1, "mean"),),
    "MLP and head of a layer": (AblateMLP(1, "mean"), AblateHead(1, 2, "zero")),
    "head below an MLP": (AblateHead(0, 3, "mean"), AblateMLP(1, "zero")),
    "context and MLP": (RestrictContext(2), AblateMLP(0, "mean")),
}


def scored_of(tokens: Tensor, ragged: bool) -> Tensor:
    if ragged:
        return (tokens + torch.arange(tokens.shape[1])) % 3 > 0
    return (torch.arange(tokens.shape[1]) >= 4).expand(tokens.shape)


@pytest.mark.one_of(4)
@pytest.mark.each_value
@pytest.mark.parametrize("ragged", [False, True])
def test_lean_passes_equal_those_with_hooks(any_kind: str, ragged: bool, subject: Callable[..., Any]) -> None:
    one = subject(any_kind, 2)
    edits = {**EDITS, **({} if any_kind == "attention only" else OF_MLPS)}
    names = rotary_hooks(one.built).union(*(models.hooks_for(one.built, edit) for edit in edits.values()))
    shown = {*hooks, lean.SCORES} if (hooks := shown_hooks(one.built)) else set()
    log_probs, clean = models.clean_pass(one.built, one.tokens, names | shown)
    unshown = {name: activation for name, activation in clean.items() if name not in shown}
    weights = lean.agreeing_weights(one.built, clean, *of_all(log_probs))
    assert (weights is None) == (any_kind in UNKNOWN)
    if weights is None:
        return
    scored = scored_of(one.tokens, ragged)
    expected = {name: one.edited(edit)[scored] for name, edit in edits.items()}
    for folded, activations in itertools.product(dict.fromkeys((weights, weights.fold())), (clean, unshown)):
        passes = lean.LeanPass(folded, activations, scored, functools.partial(replacement, clean=activations))
        for name, edit in edits.items():
            with torch.inference_mode():
                predicted = folded.unembedded(passes.residual(edit)).log_softmax(-1)
            torch.testing.assert_close(predicted, expected[name], atol=SAME, rtol=SAME, msg=name)
        for layer in (0, 1):
            heads = [AblateHead(layer, 0, "mean"), AblateHead(layer, 2, "resample"), AblateHead(layer, 3)]
            with torch.inference_mode():
                each, together = torch.cat([passes.residual((head,)) for head in heads]), passes.residuals(heads)
            torch.testing.assert_close(together, each, atol=SAME, rtol=SAME)


@contextlib.contextmanager
def changed(model: Any, name: str, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Change what a hook point passes on, and no longer: other tests share the model."""
    point = model.hook_dict[name]
    point.add_perma_hook(lambda activation, hook: change(activation))
    try:
        yield
    finally:
        point.remove_hooks(including_permanent=True)


def test_a_model_that_computes_something_else_is_refused(subject: Callable[..., Any]) -> None:
    one = subject("LN and MLP", 2)
    log_probs, clean = models.clean_pass(one.built, one.tokens, {"blocks.0.hook_resid_pre"})
    assert lean.agreeing_weights(one.built, clean, *of_all(log_probs)) is not None
    with changed(one.built, "blocks.1.hook_mlp_out", lambda x: 1.01 * x):
        log_probs, clean = models.clean_pass(one.built, one.tokens, {"blocks.0.hook_resid_pre"})
        assert lean.agreeing_weights(one.built, clean, *of_all(log_probs)) is None


def test_an_mlp_without_its_heads_z_starts_from_the_residual_stream(subject: Callable[..., Any]) -> None:
    one, edit = subject("gated", 2), (AblateMLP(1, "mean"),)
    log_probs, clean = models.clean_pass(
        one.built, one.tokens, {"blocks.0.hook_resid_pre", *models.hooks_for(one.built, edit)}
    )
    weights = lean.agreeing_weights(one.built, clean, *of_all(log_probs))
    assert weights is not None
    passes = lean.LeanPass(weights, clean, scored_of(one.tokens, False), functools.partial(replacement, clean=clean))
    predicted = weights.unembedded(passes.residual(edit)).log_softmax(-1)
    torch.testing.assert_close(predicted, one.edited(edit)[passes.scored], atol=SAME, rtol=SAME)


UNSEEN = {
    "norm of queries": {**ROTARY, "use_qk_norm": True},
    "slopes": {"positional_embedding_type": "alibi"},
    "clipped queries": {**ROTARY, "clip_qkv": 50.0},
    "both directions": {**ROTARY, "attention_dir": "bidirectional"},
}
"""Configs whose effect is not to be seen on sequences that repeat one token."""


@pytest.mark.skipif(not HOOKED, reason="native bridges refuse these fields")
@pytest.mark.parametrize("config", UNSEEN.values(), ids=UNSEEN)
def test_what_the_first_sequences_do_not_show_is_read_from_the_config(config: dict[str, Any]) -> None:
    model = models.build(Architecture({**CONFIG, **config}))
    log_probs, clean = models.clean_pass(model, torch.ones(2, 3).long(), {"blocks.0.hook_resid_pre"})
    assert lean.agreeing_weights(model, clean, *of_all(log_probs)) is None


def test_a_bridge_that_clips_only_large_values_is_refused() -> None:
    olmo = family_of("olmo").small()
    olmo.config.clip_qkv = 1e3
    bridge = wrapped(olmo)
    tokens = torch.arange(8).view(2, 4)
    log_probs, clean = models.clean_pass(bridge, tokens, {"blocks.0.hook_resid_pre"} | rotary_hooks(bridge))
    assert lean.agreeing_weights(bridge, clean, *of_all(log_probs)) is None


def test_a_model_whose_mlps_write_something_else_than_they_show_is_refused(subject: Callable[..., Any]) -> None:
    one = subject("gated", 2)
    log_probs, clean = models.clean_pass(one.built, one.tokens, {"blocks.0.hook_resid_pre", "blocks.1.hook_mlp_out"})
    assert lean.agreeing_weights(one.built, clean, *of_all(log_probs)) is not None
    shown = {**clean, "blocks.1.hook_mlp_out": 2 * clean["blocks.1.hook_mlp_out"]}
    assert lean.agreeing_weights(one.built, shown, *of_all(log_probs)) is None


def test_a_model_whose_heads_are_changed_in_between_is_refused(subject: Callable[..., Any]) -> None:
    one = subject("attention only", 2)
    names = {"blocks.0.hook_resid_pre", "blocks.1.attn.hook_z"}
    log_probs, clean = models.clean_pass(one.built, one.tokens, names)
    assert lean.agreeing_weights(one.built, clean, *of_all(log_probs)) is not None
    with changed(one.built, "blocks.1.attn.hook_z", lambda z: z.flip(2)):
        log_probs, clean = models.clean_pass(one.built, one.tokens, names)
        assert lean.agreeing_weights(one.built, clean, *of_all(log_probs)) is None


HEADS, D_HEAD, D_MODEL = 2, 3, 5
PLAIN = Norm(None, 0.0)
LENGTHS = (7, SHORT + 5, SHORT + 20)
"""By products, by the fused kernel, and by the kernel in blocks of queries."""


@pytest.fixture
def in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the queries of the longest of these in blocks."""
    monkeypatch.setattr(lean, "_LONG", LENGTHS[-1])
    monkeypatch.setattr(lean, "_BLOCK", 16)


def weights(window: int | None = None, cap: float | None = None) -> LeanWeights:
    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    generator = torch.Generator().manual_seed(0)
    q, k, v = (Projection.of(draw(HEADS, D_MODEL, D_HEAD), draw(HEADS, D_HEAD)) for _ in range(3))
    layer = Layer(PLAIN, q, k, v, draw(HEADS, D_HEAD, D_MODEL), draw(D_MODEL), 0.5, window=window)
    return LeanWeights([layer], PLAIN, draw(D_MODEL, 4), draw(4), score_cap=cap)


def by_formula(model: LeanWeights, x: Tensor, context: int) -> Tensor:
    """Return z, one query at a time."""
    [layer] = model.layers
    parts = (layer.q, layer.k, layer.v)
    q, k, v = ((x @ part.weight.T + part.bias).unflatten(-1, (HEADS, D_HEAD)) for part in parts)
    z = torch.zeros_like(q)
    for query in range(x.shape[1]):
        keys = slice(max(0, query - context + 1), query + 1)
        scores = torch.einsum("bhd,bkhd->bhk", q[:, query], k[:, keys]) * layer.scale
        if model.score_cap is not None:
            scores = model.score_cap * (scores / model.score_cap).tanh()
        z[:, query] = torch.einsum("bhk,bkhd->bhd", scores.softmax(-1), v[:, keys])
    return z


@pytest.mark.usefixtures("in_blocks")
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(("window", "cap"), [(None, None), (4, None), (None, 1.5)])
@pytest.mark.parametrize("context", [None, 1, 3, 100])
def test_attention_is_that_of_the_formula(
    length: int, window: int | None, cap: float | None, context: int | None
) -> None:
    model = weights(window, cap)
    x = torch.randn(3, length, D_MODEL, generator=torch.Generator().manual_seed(1))
    z = attend(model.layers[0], project(model, 0, x, None), None, context)
    shortest = min((each for each in (context, window) if each is not None), default=math.inf)
    torch.testing.assert_close(z, by_formula(model, x, int(min(shortest, length))), rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("in_blocks")
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("context", [None, 2])
def test_chosen_queries_have_what_all_of_them_have_there(length: int, context: int | None) -> None:
    model = weights()
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(3, length, D_MODEL, generator=generator)
    queries = ScoredPositions.of(torch.rand(3, length, generator=generator) < 0.5)
    everywhere = attend(model.layers[0], project(model, 0, x, None), None, context)
    chosen = attend(model.layers[0], project(model, 0, x, queries), queries, context)
    torch.testing.assert_close(
        queries.flat(chosen.flatten(2)), queries.flat(queries.take(everywhere).flatten(2)), rtol=1e-5, atol=1e-5
    )


def test_what_a_layer_attends_with_serves_any_context() -> None:
    model = weights()
    x = torch.randn(2, 9, D_MODEL, generator=torch.Generator().manual_seed(3))
    heads = project(model, 0, x, None)
    for context in (3, 1, None, 3):
        anew = attend(model.layers[0], project(model, 0, x, None), None, context)
        assert torch.equal(attend(model.layers[0], heads, None, context), anew)


EVEN = torch.tensor([[0, 1, 0, 1], [1, 0, 0, 1]]).bool()
RAGGED = torch.tensor([[0, 1, 1, 1], [0, 0, 0, 1]]).bool()


@pytest.mark.parametrize("scored", [EVEN, RAGGED])
def test_the_rows_are_those_of_the_scored_positions_in_their_order(scored: torch.Tensor) -> None:
    x = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
    queries = ScoredPositions.of(scored)
    assert torch.equal(queries.flat(queries.take(x)), x[scored])


def test_sequences_with_as_many_scored_positions_need_no_filling() -> None:
    assert ScoredPositions.of(EVEN).real is None
    assert ScoredPositions.of(RAGGED).index.tolist() == [[1, 2, 3], [3, 0, 0]]
