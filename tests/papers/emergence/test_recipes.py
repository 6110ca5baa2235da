"""Recipes of the transformers on recall and regression."""

from stagewise import models
from stagewise.papers.emergence.recipes import recall_recipe, regression_recipe


def test_the_papers_sizes_build() -> None:
    recall = recall_recipe(8, 32, setting="paper").architecture
    assert (recall.n_layers, recall.n_heads, recall.config["d_mlp"]) == (4, 4, 1024)
    regression = models.build(regression_recipe(16, 8).architecture)
    assert regression.cfg.to_dict()["d_vocab_out"] == 8
    assert regression.cfg.normalization_type is None


def test_recall_takes_batches_of_32_where_no_other_size_is_asked_for() -> None:
    assert recall_recipe(8, 32).plan.batch_size == recall_recipe(8, 32, setting="paper").plan.batch_size == 32
    assert recall_recipe(8, 32, batch_size=128).plan.batch_size == 128


def test_the_papers_recall_is_saved_some_forty_times_until_its_law() -> None:
    small, large = (recall_recipe(n, 256, budget=200_000, setting="paper").plan for n in (8, 32))
    assert [sorted(plan.saved_steps)[1] for plan in (small, large)] == [100, 2700]
