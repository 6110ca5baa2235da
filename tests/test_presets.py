"""Presets: every task of the catalogue has one that makes a recipe, and so has any other task."""

import dataclasses
from pathlib import Path

import pytest

from stagewise import models, tasks
from stagewise.cli._names import TASKS
from stagewise.criteria import DEFAULT
from stagewise.loss import training_loss
from stagewise.measurement.probe_batch import load_batch
from stagewise.papers.tasks import AssociativeRecall, SparseRegression, WikiText
from stagewise.presets import _presets_of, recipe_for
from stagewise.probes import HeadAblation
from stagewise.probes.default_probes import default_probes
from stagewise.recipe import Recipe
from stagewise.task import AbstractTask
from stagewise.tasks import MarkovChain, Text, Tokens

CATALOGUE = [getattr(tasks, name) for name in TASKS.values()]
PLAIN = [kind for kind in CATALOGUE if kind not in (Text, Tokens, WikiText)]


def loss_at_the_start(recipe: Recipe) -> float:
    model, batch = models.build(recipe.architecture), recipe.task.sample(4, 0)
    outputs, _ = models.clean_pass(model, batch.tokens, hooks=(), regression=batch.is_regression)
    return training_loss(outputs[batch.scored], batch.targets[batch.scored]).item()


@pytest.mark.parametrize("kind", PLAIN, ids=lambda kind: kind.__name__)
def test_every_preset_makes_a_model_that_reads_its_task(kind: type[AbstractTask]) -> None:
    for name in _presets_of(kind):
        recipe = recipe_for(kind, name, seed=2)
        assert isinstance(recipe.task, kind)
        assert recipe.plan.seeds.init == recipe.plan.seeds.data == 2
        assert loss_at_the_start(recipe) > 0


@pytest.mark.parametrize("kind", PLAIN, ids=lambda kind: kind.__name__)
def test_every_head_of_every_preset_is_ablated_on_all_sequences(kind: type[AbstractTask], tmp_path: Path) -> None:
    for name in _presets_of(kind):
        recipe = recipe_for(kind, name)
        probes = default_probes(recipe.architecture, load_batch(recipe, tmp_path), recipe.task)
        assert [probe.exact for probe in probes if isinstance(probe, HeadAblation)] == [True]


@pytest.mark.parametrize("kind", PLAIN, ids=lambda kind: kind.__name__)
def test_every_preset_saves_enough_to_find_transitions_in(kind: type[AbstractTask]) -> None:
    for name in _presets_of(kind):
        assert len([*(recipe_for(kind, name).plan.save or ())]) >= DEFAULT.fewest


@pytest.mark.parametrize("kind", PLAIN, ids=lambda kind: kind.__name__)
def test_heads_and_layers_are_those_asked_for(kind: type[AbstractTask]) -> None:
    architecture = recipe_for(kind, n_heads=2, n_layers=3).architecture
    assert (architecture.n_heads, architecture.n_layers) == (2, 3)


def test_models_have_the_size_of_the_task_that_is_set() -> None:
    recall = recipe_for(AssociativeRecall, n_pairs=3, n_tokens=12, n_sequences=50)
    assert (recall.architecture.config["n_ctx"], recall.architecture.config["d_vocab"]) == (7, 12)
    assert recall.task.n_sequences == 50
    assert recipe_for(AssociativeRecall, n_pairs=3, n_tokens=12, n_queries=3).architecture.config["n_ctx"] == 9
    regression = recipe_for(SparseRegression, d=5, marked=False, positions="fixed")
    assert (regression.architecture.config["d_vocab"], regression.architecture.config["d_vocab_out"]) == (5, 5)


def test_texts_have_a_model_of_their_tokens(letters: str, tokenizer: str) -> None:
    text = recipe_for(Text, tokenizer=tokenizer, files=(f"{letters}/train.txt",), length=16)
    wikitext = recipe_for(WikiText, data=letters, vocab_size=262, length=16, name="mine", n_heads=2)
    tokens = recipe_for(Tokens, file=f"{letters}/tokens.npy", length=16)
    for recipe, d_vocab in ((text, 11), (tokens, 8), (wikitext, wikitext.task.d_vocab)):
        assert (recipe.architecture.config["n_ctx"], recipe.architecture.config["d_vocab"]) == (16, d_vocab)
    assert isinstance(wikitext.task, WikiText)
    assert (wikitext.task, wikitext.architecture.n_heads) == (dataclasses.replace(wikitext.task, name="mine"), 2)


@dataclasses.dataclass(frozen=True)
class Own(MarkovChain):
    """A task of one's own, with a seed."""


@dataclasses.dataclass(frozen=True)
class OwnRegression(SparseRegression):
    """A regression of one's own."""


def test_any_other_task_has_an_ordinary_transformer_of_its_size_that_learns_from_the_first_step() -> None:
    recipe = recipe_for(Own, seed=4, d_vocab=6)
    assert recipe.task == Own(seed=4, d_vocab=6)
    assert recipe.plan.rate_factor(0) == 1
    assert (recipe.architecture.n_layers, recipe.architecture.config["d_vocab"]) == (2, 6)
    assert loss_at_the_start(recipe_for(OwnRegression, d=3)) > 0


def test_an_unknown_preset_is_named_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="AssociativeRecall has no preset 'huge'; there are small"):
        recipe_for(AssociativeRecall, "huge")
