"""Sweeps end to end at a tiny size; the figures' own recipes are checked, and trained in slow tests."""

import dataclasses
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from stagewise.architecture import minimal
from stagewise.experiments import incremental, incremental_figures
from stagewise.experiments.baselines import baseline_recipe, content_hash
from stagewise.experiments.early_stopping import early_stop
from stagewise.init import OneHotInit
from stagewise.recipe import Recipe, TrainPlan
from stagewise.stages import find_stages
from stagewise.table import select
from stagewise.tasks import MarkovChain
from stagewise.training import train

PLAN = TrainPlan(steps=6, batch_size=16, learning_rate=0.08, save=frozenset({0, 2, 4}))


def tiny(n_sequences: int | None = 40) -> Recipe:
    task = MarkovChain(d_vocab=4, spans=(1, 1), length=4, n_sequences=n_sequences)
    return Recipe(task, minimal(4, task.n_ctx, n_heads=2), PLAN)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame]:
    folder = tmp_path_factory.mktemp("sweep")
    sweep = {"n=40-seed0": tiny(40), "n=80-seed0": tiny(80)}
    return folder, incremental.run_sweep(sweep, folder, restricted=True, progress=False)


def test_a_sweep_has_a_row_and_a_run_folder_for_each_recipe(swept: tuple[Path, pd.DataFrame]) -> None:
    folder, summary = swept
    assert summary["run"].tolist() == ["n=40-seed0", "n=80-seed0"]
    for name in summary["run"]:
        assert (folder / name / "tables" / "measurements.parquet").exists()
    pd.testing.assert_frame_equal(pd.read_csv(folder / "summary.csv"), summary)


def test_the_runs_of_a_data_sweep_share_their_baselines(swept: tuple[Path, pd.DataFrame]) -> None:
    folder, summary = swept
    assert len(list((folder / "baselines").iterdir())) == 2  # contexts 1 and 2
    assert summary["completed"].between(1, 2).all()


def test_a_second_call_trains_nothing_and_says_the_same(swept: tuple[Path, pd.DataFrame]) -> None:
    folder, summary = swept
    weights = {path: path.stat().st_mtime_ns for path in folder.rglob("*.safetensors")}
    sweep = {"n=40-seed0": tiny(40), "n=80-seed0": tiny(80)}
    again = incremental.run_sweep(sweep, folder, restricted=True, progress=False)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.safetensors")} == weights
    pd.testing.assert_frame_equal(again, summary)


@pytest.mark.parametrize("figure", ["4R", "5", "6"])
def test_every_kind_of_figure_is_drawn(figure: str, swept: tuple[Path, pd.DataFrame], tmp_path: Path) -> None:
    folder, summary = swept
    drawn = incremental_figures.draw(figure, folder, summary["run"].tolist())
    drawn.savefig(tmp_path / "figure.png")
    assert len(drawn.get_axes()) >= {"4R": 1, "5": 2, "6": 4}[figure]


def test_figure_10_shows_the_loss_and_every_head() -> None:
    assert len(incremental_figures.ode(until=50).get_axes()) == 4


@pytest.mark.parametrize("figure", incremental.FIGURES)
@pytest.mark.parametrize("setting", incremental.SETTINGS)
def test_the_runs_of_a_figure_differ_and_can_be_sampled(figure: str, setting: str) -> None:
    sweep = incremental.recipes(figure, setting)
    assert len({content_hash(recipe) for recipe in sweep.values()}) == len(sweep)
    for recipe in sweep.values():
        assert recipe.task.sample(2, seed=0).tokens.shape == (2, recipe.task.n_ctx)


@pytest.mark.parametrize(("figure", "setting"), [("10", "small"), ("5", "huge")])
def test_an_unknown_figure_or_setting_is_named_with_those_that_there_are(figure: str, setting: str) -> None:
    with pytest.raises(ValueError, match=f"settings small, paper; got figure '{figure}' in setting '{setting}'"):
        incremental.recipes(figure, setting)


def test_runs_that_differ_in_data_scale_or_seed_share_a_baseline_and_others_do_not() -> None:
    def cached(recipe: Recipe) -> str:
        return content_hash(baseline_recipe(recipe, 2))

    for setting in incremental.SETTINGS:
        assert len({cached(recipe) for recipe in incremental.recipes("5", setting).values()}) == 1
    assert {cached(recipe) for recipe in incremental.recipes("4L").values()} == {cached(incremental.base())}
    assert len({cached(recipe) for recipe in incremental.recipes("4R").values()}) == 4


def heads_after_8_steps(setting: str, scale: Any, folder: Path) -> int:
    recipe = incremental.base(setting)
    config = minimal(recipe.task.d_vocab, recipe.task.n_ctx, init=OneHotInit(query_scale=scale))
    plan = dataclasses.replace(recipe.plan, steps=8, batch_size=64, save=None)
    return incremental.distinct_heads(train(Recipe(recipe.task, config, plan), folder, progress=False))


@pytest.mark.parametrize("scale", [scale for scale in incremental.SCALES if scale != 0])
@pytest.mark.parametrize("setting", incremental.SETTINGS)
def test_heads_stay_different_objects_at_every_initial_scale(setting: str, scale: Any, tmp_path: Path) -> None:
    assert heads_after_8_steps(setting, scale, tmp_path) == 3


@pytest.mark.parametrize("scale", [1e-9, 0.0])
def test_a_scale_that_rounding_loses_makes_one_head_of_all(scale: float, tmp_path: Path) -> None:
    assert heads_after_8_steps("small", scale, tmp_path) == 1


def test_early_stopping_takes_the_lowest_excess_and_the_closest_baseline(swept: tuple[Path, pd.DataFrame]) -> None:
    folder, _ = swept
    table = pd.read_parquet(folder / "n=40-seed0" / "tables" / "measurements.parquet")
    found = early_stop(table, find_stages(table))
    excess = select(table, "Loss", "excess").set_index("step")["value"]
    assert (found.best_step, found.best_excess) == (excess.idxmin(), excess.min())
    kl = select(table, "KLToReference", "kl", step=found.best_step).set_index("reference")["value"]
    assert found.completed == (1 if kl["trained c=1"] < kl["trained c=2"] else 2)


@pytest.mark.slow
def test_more_data_never_means_fewer_completed_stages(tmp_path: Path) -> None:
    summary = incremental.run_figure("5", tmp_path, seeds=(0, 1, 2), progress=False)
    summary["seed"] = summary["run"].str.rpartition("seed")[2]
    for _, rows in summary.groupby("seed"):
        assert rows["completed"].is_monotonic_increasing
        assert rows["completed"].iloc[[0, -1]].tolist() == [1, 3]
