"""The WikiText model as a HookedTransformer: what it predicts and attends to is what the torch module does."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from stagewise import models
from stagewise.architectures import full
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.intervention import AblateHead, RestrictContext
from stagewise.measurement.engine import measure
from stagewise.papers.scan_and_snap._wikitext_model import Baseline, positions
from stagewise.papers.scan_and_snap.wikitext_hooked import BaselineInit, baseline, hooked_weights
from stagewise.probe import AbstractProbe, pattern_hooks
from stagewise.probes import DirectLogitAttribution, EdgeAttribution, MLPAblation
from stagewise.probes.default_probes import default_probes
from stagewise.recipe import describe, rebuild
from stagewise.tasks import RepeatedTokens

SAME = 1e-5
"""Of probabilities and attention: float32, sums in another order."""

D_VOCAB = 40
TOKENS = torch.randint(D_VOCAB, (3, 35), generator=torch.Generator().manual_seed(0))
KINDS = {"HeadSpecialisation", "RestrictedContextKL", "HeadAblation", "PatternClusters"}

pytestmark = pytest.mark.hooked_only("its norms are parameters of hook points")


def moved(n_layers: int, seed: int = 0) -> Baseline:
    """A model away from its start: every weight, of the norms too, is moved at random."""
    model = Baseline(D_VOCAB, n_layers).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
    return model


def hooked(model: Baseline) -> models.Model:
    built = models.build(baseline(D_VOCAB, len(model.layers)))
    models.load(built, hooked_weights(model.state_dict()))
    return built


def with_patterns(model: Any, change: Callable[[int, Tensor], Tensor]) -> Tensor:
    """Log-probabilities [batch pos token] of the torch module's own layers with other attention patterns."""
    x = model.embedding(TOKENS) * 200**0.5 + positions(35)
    for number, layer in enumerate(model.layers):
        weights, biases = layer.self_attn.in_proj_weight.chunk(3), layer.self_attn.in_proj_bias.chunk(3)
        q, k, v = (x @ weight.T + bias for weight, bias in zip(weights, biases, strict=True))
        scores = (q @ k.mT / 200**0.5).masked_fill(torch.ones(35, 35).triu(1).bool(), -torch.inf)
        attended = layer.self_attn.out_proj(change(number, scores.softmax(-1)) @ v)
        x = layer.norm1(x + attended)
        x = layer.norm2(x + layer.linear2(torch.relu(layer.linear1(x))))
    log_probs: Tensor = model.decoder(x).log_softmax(-1)
    return log_probs


@pytest.mark.parametrize("n_layers", [1, 3])
def test_predictions_and_patterns_are_those_of_the_torch_module(n_layers: int) -> None:
    model = moved(n_layers)
    logits, patterns = model(TOKENS.T)
    log_probs, activations = models.clean_pass(hooked(model), TOKENS, pattern_hooks(baseline(D_VOCAB, n_layers)))
    torch.testing.assert_close(log_probs, logits.transpose(0, 1).log_softmax(-1), atol=SAME, rtol=SAME)
    for layer, pattern in enumerate(patterns):
        own = activations[f"blocks.{layer}.attn.hook_pattern"][:, 0]
        torch.testing.assert_close(own, pattern, atol=SAME, rtol=0)
        assert own.max(-1).values[:, -1].min() > 2 / 35  # not uniform


@pytest.mark.parametrize("n_layers", [1, 3])
def test_edits_are_those_of_the_torch_module(n_layers: int) -> None:
    model = moved(n_layers)
    built = hooked(model)
    context, ablation = (RestrictContext(2),), (AblateHead(0, 0, "zero"),)
    models.check_edits(built, [RestrictContext, AblateHead], TOKENS)
    names = {*models.hooks_for(built, context), *models.hooks_for(built, ablation)}
    _, clean = models.clean_pass(built, TOKENS, names)
    with torch.no_grad():
        near = torch.ones(35, 35).triu(-1)
        restricted = with_patterns(
            model, lambda layer, pattern: (pattern * near) / (pattern * near).sum(-1, keepdim=True)
        )
        ablated = with_patterns(model, lambda layer, pattern: pattern if layer else 0 * pattern)  # then z is zero
    for edit, expected in ((context, restricted), (ablation, ablated)):
        torch.testing.assert_close(models.edited_pass(built, edit, clean), expected, atol=2 * SAME, rtol=2 * SAME)


@pytest.mark.parametrize("n_layers", [1, 3])
def test_it_starts_from_the_published_weights(n_layers: int) -> None:
    built = models.weights(models.build(baseline(D_VOCAB, n_layers, BaselineInit(seed=2))))
    published = hooked_weights(Baseline(D_VOCAB, n_layers, seed=2).state_dict())
    assert built.keys() == published.keys()
    assert all(torch.equal(built[name], weight) for name, weight in published.items())


def test_every_number_of_the_torch_module_is_in_the_checkpoint_once() -> None:
    model = Baseline(D_VOCAB, 3)
    positions = 35 * 200
    assert sum(weight.numel() for weight in hooked_weights(model.state_dict()).values()) == positions + sum(
        parameter.numel() for parameter in model.parameters()
    )


@pytest.mark.one_of(2)
@pytest.mark.parametrize("n_layers", [1, 3])
def test_all_four_kinds_of_probes_read_it(n_layers: int) -> None:
    states = [hooked_weights(moved(n_layers, seed).state_dict()) for seed in (0, 1)]
    series = CheckpointSeries("run", baseline(D_VOCAB, n_layers), (0, 1), states.__getitem__)
    task = RepeatedTokens(D_VOCAB, 12)
    batch = task.probe_batch(4, seed=0)
    probes = default_probes(series.architecture, batch, task)
    table = measure(series, probes, batch, resamples=5, progress=False)
    heads = table[table["probe"].isin(KINDS) & (table["probe"] != "RestrictedContextKL")].groupby("probe")["layer"]
    assert set(table["probe"]) >= KINDS
    assert heads.nunique().to_dict() == dict.fromkeys(KINDS - {"RestrictedContextKL"}, n_layers)


def test_the_record_names_the_initialisation_with_its_place() -> None:
    made = baseline(D_VOCAB, 3, BaselineInit(2, 0.3))
    assert rebuild(describe(made)) == made


def test_another_config_is_refused() -> None:
    with pytest.raises(ValueError, match=r"BaselineInit needs layers of one head without norms"):
        models.build(dataclasses.replace(full(4, 6), init=BaselineInit()))


@pytest.mark.usefixtures("unchecked")  # the last test: a check of types asks for the refused readings first
@pytest.mark.parametrize(
    ("probe", "message"),
    [
        (DirectLogitAttribution(), "hooks that stay with this model change its residual stream"),
        (MLPAblation(), "AblateMLP does not do on the model what it says"),
        (
            EdgeAttribution(),
            "computes with: parts of its own, such as experts, norms inside an MLP or hooks that stay with it",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_takes_the_residual_stream_for_a_sum_is_refused(probe: AbstractProbe, message: str) -> None:
    state = hooked_weights(moved(3).state_dict())
    series = CheckpointSeries("run", baseline(D_VOCAB, 3), (0,), lambda step: state)
    with pytest.raises(ValueError, match=message):
        measure(series, [probe], RepeatedTokens(D_VOCAB, 12).probe_batch(4, seed=0), resamples=5, progress=False)
