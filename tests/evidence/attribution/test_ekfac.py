"""EK-FAC reads a copy of the model in linear layers: it predicts and attends as the model does."""

from pathlib import Path

import pytest
import torch

from evidence.attribution import ekfac, predicted
from evidence.attribution.windows import STUDIES, Window, recipe_of
from stagewise import models
from stagewise.papers.adjoint import sample_losses, trained_parameters
from stagewise.papers.samples import attention_score
from stagewise.training import prepare, train
from tests.fixtures.two_lags import TWO_LAGS


@pytest.mark.parametrize("task", STUDIES)
def test_linear_layers_have_the_losses_and_the_attention_of_the_model(task: str) -> None:
    recipe = recipe_of(task, 0)
    training = prepare(recipe)
    generator = torch.Generator().manual_seed(0)
    for parameter in trained_parameters(training).values():
        parameter.data += 0.1 * torch.randn(parameter.shape, generator=generator)
    copy, batch = ekfac.Linears(training), recipe.task.probe_batch(16, 0)
    losses = sample_losses(training, models.parameters(training.model), batch)
    found = ekfac.losses(copy, (batch.tokens, batch.targets, batch.scored))
    torch.testing.assert_close(found / batch.scored.sum(), losses.sum())
    head, relation = (recipe.architecture.n_layers - 1, 0), list(batch.relations)[-1]
    attention = ekfac.attention(copy, (batch.tokens, ekfac.shares_of(batch, relation)), *head)
    torch.testing.assert_close(attention / len(batch), attention_score(training.model, batch, head, relation))


@pytest.mark.usefixtures("few_sequences", "unchecked")
def test_damped_beyond_all_curvature_influence_is_the_similarity_of_gradients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("kronfluence")
    monkeypatch.setattr("evidence.attribution.windows.recipe_at", lambda folder: TWO_LAGS)
    train(TWO_LAGS, tmp_path / "run", progress=False)
    window = Window(tmp_path / "run", (0, 0), "near", 28, 36, 4)
    both = torch.stack([ekfac.influence(window, 1e9).flatten(), predicted.similarity(window).flatten()])
    assert torch.corrcoef(both)[0, 1] > 0.9999
