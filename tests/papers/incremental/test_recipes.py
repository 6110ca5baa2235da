"""The recipes behind every figure: which runs there are, which share a folder, whether their heads differ."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from stagewise.architectures import OneHotInit, minimal
from stagewise.checkpoints._digest import short_digest
from stagewise.papers.incremental import _runs as incremental
from stagewise.papers.incremental import markov
from stagewise.papers.incremental.recipes import FIGURES, SCALES, SETTINGS, runs, variants
from stagewise.recipe import Recipe
from stagewise.training import train

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.mark.parametrize("setting", ["small", pytest.param("paper", marks=pytest.mark.slow)])
def test_every_run_can_be_sampled_and_is_found_by_a_figure(setting: str) -> None:
    known = variants(setting)
    for recipe in known.values():
        assert recipe.task.sample(2, seed=0).tokens.shape == (2, recipe.task.n_ctx)
    shown = {run.folder for figure in FIGURES for run in runs(figure, setting)}
    assert len(shown) == len({short_digest(recipe) for recipe in known.values()})


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_runs_of_a_figure_differ_and_those_in_one_folder_do_not(figure: str, setting: str) -> None:
    found = runs(figure, setting, seeds=(0, 1))
    assert len({run.name for run in found}) == len({run.folder for run in found}) == len(found)
    assert len({short_digest(run.recipe) for run in found}) == len(found)


@pytest.mark.parametrize(("one", "other"), [("2", "3"), ("6", "7"), ("8", "9"), ("13", "14"), ("18", "19")])
@pytest.mark.parametrize("setting", SETTINGS)
def test_two_figures_of_one_run_share_it(one: str, other: str, setting: str) -> None:
    assert runs(one, setting) == runs(other, setting)


@pytest.mark.parametrize(("figure", "setting"), [("10", "small"), ("5", "huge")])
def test_an_unknown_figure_or_setting_is_named_with_those_that_there_are(figure: str, setting: str) -> None:
    with pytest.raises(ValueError, match=f"settings small, paper; got figure '{figure}' in setting '{setting}'"):
        runs(figure, setting)


def heads_after_8_steps(recipe: Recipe, folder: Path) -> int:
    plan = dataclasses.replace(recipe.plan, steps=8, batch_size=64, save=None)
    return incremental.distinct_heads(train(dataclasses.replace(recipe, plan=plan), folder, progress=False))


@pytest.mark.slow
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("setting", SETTINGS)
def test_heads_stay_different_objects_at_every_initial_scale_but_zero(setting: str, scale: Any, tmp_path: Path) -> None:
    recipe = variants(setting)[f"scale={scale}"]
    assert heads_after_8_steps(recipe, tmp_path) == (1 if scale == 0 else 3)


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["small", pytest.param("paper", marks=pytest.mark.slow)])
@pytest.mark.parametrize("figure", ["1", "8", "11", "12", "15", "18"])
def test_heads_of_every_other_kind_of_run_are_different_objects_too(figure: str, setting: str, tmp_path: Path) -> None:
    run = runs(figure, setting)[-1]
    assert heads_after_8_steps(run.recipe, tmp_path) == run.recipe.architecture.n_heads


@pytest.mark.slow
def test_a_scale_below_rounding_does_not_keep_all_heads_apart(tmp_path: Path) -> None:
    lost = minimal(24, 21, init=OneHotInit(query_scale=1e-9))
    recipe = dataclasses.replace(markov.recipe(), architecture=lost)
    # How many are left is decided by the rounding of a processor's sums: one on most, two without AVX2.
    assert heads_after_8_steps(recipe, tmp_path) < recipe.architecture.n_heads
