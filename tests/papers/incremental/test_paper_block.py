"""The paper's block as a HookedTransformer is the block written out, drops numbers in training alone, and resumes."""

import dataclasses
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from stagewise import models, open_series
from stagewise.architectures import full
from stagewise.measurement.engine import measure
from stagewise.papers.incremental import command, markov
from stagewise.papers.incremental.paper_block import PaperBlockInit, paper_block
from stagewise.papers.incremental.recipes import runs
from stagewise.probes import Loss
from stagewise.recipe import Recipe
from stagewise.training import prepare, train

pytestmark = pytest.mark.hooked_only("the norms are parameters of hook points")


def small(dropout: float = 0.5) -> Recipe:
    """Return a run of four updates whose dropout is large."""
    made = markov.recipe("paper-block", plan={"steps": 4, "batch_size": 8, "save": (0, 2, 4)})
    return dataclasses.replace(made, architecture=dataclasses.replace(made.architecture, init=PaperBlockInit(dropout)))


def written_out(w: dict[str, Tensor], tokens: Tensor) -> Tensor:
    """Return the logits of the block's formula, on the weights of a HookedTransformer."""
    x = w["embed.W_E"][tokens] + w["pos_embed.W_pos"][: tokens.shape[1]]
    q, k, v = (torch.einsum("bpm,hmd->bhpd", x, w[f"blocks.0.attn.W_{name}"]) for name in "QKV")
    later = torch.full((tokens.shape[1],) * 2, -torch.inf).triu(1)
    pattern = (q @ k.mT / q.shape[-1] ** 0.5 + later).softmax(-1)
    x = x + torch.einsum("bhpd,hdm->bpm", pattern @ v, w["blocks.0.attn.W_O"])
    x = F.layer_norm(x, x.shape[-1:], w["blocks.0.hook_resid_mid.w"], w["blocks.0.hook_resid_mid.b"])
    hidden = F.relu(x @ w["blocks.0.mlp.W_in"] + w["blocks.0.mlp.b_in"])
    x = x + hidden @ w["blocks.0.mlp.W_out"] + w["blocks.0.mlp.b_out"]
    x = F.layer_norm(x, x.shape[-1:], w["blocks.0.hook_resid_post.w"], w["blocks.0.hook_resid_post.b"])
    return x @ w["unembed.W_U"]


def test_its_predictions_are_those_of_the_formula() -> None:
    model = models.build(paper_block(7, 9, d_model=24, d_mlp=16), seed=1)
    torch.manual_seed(0)
    trained = [name for name, each in models.parameters(model).items() if each.requires_grad]
    weights = {name: each.clone() for name, each in models.weights(model).items()}
    weights |= {name: weights[name] + 0.1 * torch.randn_like(weights[name]) for name in trained}
    models.load(model, weights)
    tokens = torch.randint(7, (3, 9))
    with torch.no_grad():
        torch.testing.assert_close(model(tokens), written_out(weights, tokens), atol=1e-5, rtol=1e-5)


def test_its_weights_start_as_the_papers_do() -> None:
    weights = models.weights(models.build(paper_block(7, 9, d_model=24, d_mlp=16)))
    for name in ("embed.W_E", "unembed.W_U"):
        W = weights[name] if name == "embed.W_E" else weights[name].T
        torch.testing.assert_close(W @ W.T, torch.eye(7), atol=1e-5, rtol=0)
    for name, sizes in {"attn.W_Q": (24, 24), "attn.W_O": (24, 24), "mlp.W_in": (24, 16)}.items():
        bound = (6 / sum(sizes)) ** 0.5
        largest = weights[f"blocks.0.{name}"].abs().max()
        assert 0.95 * bound < largest <= bound


def test_numbers_are_dropped_in_training_and_in_no_measurement(tmp_path: Path) -> None:
    recipe = small()
    training, without = prepare(recipe), prepare(small(dropout=0.0))
    first, again, other = (training.loss_at(step).item() for step in (0, 0, 1))
    assert first == again
    assert len({first, other, without.loss_at(0).item()}) == 3
    series, batch = train(recipe, tmp_path, progress=False), recipe.task.probe_batch(4, 0)
    loss = measure(series[-1:], [Loss()], batch, progress=False).query("quantity == 'cross_entropy'")["value"].item()
    predicted = written_out(dict(series.weights(4)), batch.tokens).log_softmax(-1)[batch.scored]
    assert loss == pytest.approx(float(F.nll_loss(predicted, batch.targets[batch.scored])), abs=1e-5)


def test_an_interrupted_training_drops_the_same_numbers(tmp_path: Path) -> None:
    whole = train(small(), tmp_path / "whole", progress=False)
    train(small(), tmp_path / "parts", progress=False, until=2)
    torch.manual_seed(5)  # what is drawn does not depend on what others drew
    parts = train(small(), tmp_path / "parts", progress=False)
    for name, weight in whole.weights(4).items():
        assert torch.equal(weight, parts.weights(4)[name])


def test_a_folder_of_it_opens_by_itself(tmp_path: Path) -> None:
    train(small(), tmp_path, progress=False)
    assert open_series(tmp_path).architecture.init == PaperBlockInit(0.5)


def test_figures_of_the_minimal_model_have_no_block() -> None:
    assert [run.folder for run in runs("3", block=True)] == ["block-full-seed0"]
    assert isinstance(runs("2", "paper", block=True)[0].recipe.architecture.init, PaperBlockInit)
    with pytest.raises(ValueError, match="minimal model"):
        runs("1", block=True)


def test_a_config_with_norms_is_refused() -> None:
    with pytest.raises(ValueError, match="its own norms"):
        models.build(dataclasses.replace(full(7, 9), init=PaperBlockInit()))


def test_one_difference_at_a_time_leads_from_the_papers_block_to_one_with_norms_in_front() -> None:
    made = {run.variant: run.recipe for run in runs("blocks", "paper")}
    inits = [recipe.architecture.init for recipe in made.values()]
    assert inits[:2] == inits[3:5] == [PaperBlockInit(), PaperBlockInit(dropout=0.0)]
    norms = {name: recipe.architecture.config["normalization_type"] for name, recipe in made.items()}
    assert (norms["dropout=0"], norms["norms=front"]) == (None, "LN")
    farthest = markov.recipe("full", setting="paper", reverse=True, spans=(2, 4, 8))
    assert made["reversed-norms=front"].task == farthest.task != made["norms=front"].task
    with pytest.raises(ValueError, match="figure blocks has no block"):
        command.make("blocks", block=True, progress=False)
