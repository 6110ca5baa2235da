"""Restricted-context baselines that runs share."""

import dataclasses
from pathlib import Path

import pytest

from stagewise.architectures import full
from stagewise.checkpoints._digest import short_digest
from stagewise.checkpoints.series import open_series
from stagewise.papers.incremental import markov
from stagewise.papers.incremental._shared_baselines import DATA, baseline_recipe, shared_baseline
from stagewise.papers.incremental.recipes import SETTINGS, runs
from stagewise.recipe import Recipe
from stagewise.tasks import MarkovChain, RepeatedTokens


def test_runs_that_differ_in_data_scale_or_seed_share_a_baseline_and_others_do_not() -> None:
    def cached(recipe: Recipe) -> str:
        return short_digest(baseline_recipe(recipe, 2))

    for setting in SETTINGS:
        assert len({cached(run.recipe) for run in runs("5", setting, seeds=(0,))}) == 1
    assert {cached(run.recipe) for run in runs("4L")} == {cached(markov.recipe())}
    assert len({cached(run.recipe) for run in runs("4R")}) == len(runs("4R"))


def test_a_baseline_trains_on_enough_data_whatever_the_run_has() -> None:
    few, fresh, many = (baseline_recipe(markov.recipe(n_sequences=n), 2).task for n in (200, None, 2 * DATA))
    assert few == fresh
    assert few.n_sequences is not None
    assert few.n_sequences >= DATA
    assert many.n_sequences == 2 * few.n_sequences


def test_a_baseline_is_trained_once(small_recipe: Recipe, tmp_path: Path) -> None:
    folder = shared_baseline(small_recipe, 1, tmp_path, progress=False)
    assert open_series(folder).steps[-1] == small_recipe.plan.steps
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*.safetensors")}
    assert isinstance(small_recipe.task, MarkovChain)
    other = dataclasses.replace(small_recipe, task=dataclasses.replace(small_recipe.task, n_sequences=70))
    assert shared_baseline(other, 1, tmp_path, progress=False) == folder
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.safetensors")} == before


def test_a_run_on_another_task_has_no_shared_baseline(small_recipe: Recipe) -> None:
    other = Recipe(RepeatedTokens(16, length=8), full(16, 11), small_recipe.plan)
    with pytest.raises(ValueError, match="made for runs on MarkovChain, this one is on RepeatedTokens"):
        baseline_recipe(other, 2)
