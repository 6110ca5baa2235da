"""One matrix of embeddings: it reads tokens and answers, trains or is drawn anew, and checkpoints have one."""

import dataclasses

import pytest
import torch

from stagewise.models import parameters
from stagewise.papers.emergence._fixed_sequences import fixed_recipe
from stagewise.papers.emergence.shared_embeddings import SharedEmbeddings
from stagewise.recipe import Recipe
from stagewise.training import Training, prepare

pytestmark = pytest.mark.usefixtures("unchecked")

TOKENS, WIDTH = 6, 8

hooked_only = pytest.mark.hooked_only("the matrix is a parameter of a hook point")


def recipe(init: SharedEmbeddings, width: int = WIDTH) -> Recipe:
    base = fixed_recipe({"N_pairs": 2, "N_tokens": TOKENS, "width": width, "seed": 0}, 4)
    return dataclasses.replace(base, architecture=dataclasses.replace(base.architecture, init=init))


def silenced(init: SharedEmbeddings) -> Training:
    """Return a model whose layers add nothing."""
    training = prepare(recipe(init))
    with torch.no_grad():
        for name, values in parameters(training.model).items():
            if name.endswith(("W_O", "b_O")):
                values.zero_()
    return training


@hooked_only
def test_what_is_added_to_a_token_answers_by_its_products_with_embeddings() -> None:
    training = silenced(SharedEmbeddings())
    weights = {name: values.detach() for name, values in parameters(training.model).items()}
    tokens = torch.tensor([[3, 1, 4, 0, 2]])
    scored = torch.tensor([[False, False, False, False, True]])
    with torch.no_grad():
        logits = training.forward.predict(tokens, scored)
    position = weights["pos_embed.W_pos"][4:5]
    torch.testing.assert_close(logits, position @ weights["hook_embed.w"].T / WIDTH**0.5)


@hooked_only
@pytest.mark.parametrize("resampled", [False, True])
def test_it_trains_or_each_step_draws_it(resampled: bool) -> None:
    training = silenced(SharedEmbeddings(resampled))
    matrix = parameters(training.model)["hook_embed.w"]
    losses = [training.loss_at(step).item() for step in (0, 0, 1)]
    assert losses[0] == losses[1] != losses[2]
    assert matrix.requires_grad is not resampled
    fresh = silenced(SharedEmbeddings())
    assert (fresh.loss_at(0).item() == losses[0]) is not resampled


def test_it_needs_a_width_of_the_number_of_tokens() -> None:
    with pytest.raises(ValueError, match="at least, got 4 for 6 tokens"):
        prepare(recipe(SharedEmbeddings(), width=4))
