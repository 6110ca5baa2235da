"""Sweeps end to end at a tiny size; the figures' own recipes are checked, and trained in slow tests."""

import dataclasses
import shutil
from pathlib import Path

import pandas as pd
import pytest

from stagewise.architectures import minimal
from stagewise.checkpoints import run_folder
from stagewise.measurement.probe_batch import _linked_baselines, load_batch
from stagewise.papers.incremental import _figures as incremental_figures
from stagewise.papers.incremental import _runs as incremental
from stagewise.papers.incremental._early_stopping import early_stop
from stagewise.papers.incremental.recipes import Run, runs
from stagewise.recipe import Recipe, TrainPlan
from stagewise.table import select
from stagewise.tasks import MarkovChain

pytestmark = pytest.mark.usefixtures("unchecked")

PLAN = TrainPlan(steps=6, batch_size=16, learning_rate=0.08, save=frozenset({0, 2, 4}))


def tiny(n_sequences: int | None = 40) -> Recipe:
    task = MarkovChain(d_vocab=4, spans=(1, 1), length=4, n_sequences=n_sequences)
    return Recipe(task, minimal(4, task.n_ctx, n_heads=2), PLAN)


SWEEP = [Run("n=40", 0, tiny(40), "a-seed0"), Run("n=80", 0, tiny(80), "b-seed0"), Run("same", 0, tiny(80), "b-seed0")]


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame]:
    folder = tmp_path_factory.mktemp("sweep")
    return folder, incremental.run_sweep(SWEEP, folder, restricted=True, progress=False)


def test_a_sweep_has_a_row_for_each_run_and_one_folder_for_those_that_are_the_same(
    swept: tuple[Path, pd.DataFrame],
) -> None:
    folder, summary = swept
    assert summary["run"].tolist() == ["n=40-seed0", "n=80-seed0", "same-seed0"]
    assert {path.name for path in folder.iterdir()} == {"a-seed0", "b-seed0", "baselines"}
    numbers = summary.set_index("variant").drop(columns="run").T
    pd.testing.assert_series_equal(numbers["n=80"], numbers["same"], check_names=False)


def test_the_runs_of_a_data_sweep_share_their_baselines(swept: tuple[Path, pd.DataFrame]) -> None:
    folder, summary = swept
    assert len(list((folder / "baselines").iterdir())) == 2  # contexts 1 and 2
    assert summary["completed"].between(1, 2).all()


def test_runs_that_end_for_now_are_measured_up_to_there_and_resume(tmp_path: Path) -> None:
    recipe = tiny()
    longer = dataclasses.replace(recipe, plan=dataclasses.replace(PLAN, steps=8, save=frozenset({0, 2, 4, 6})))
    for until, steps in ((6, [0, 2, 4, 6]), (None, [0, 2, 4, 6, 8])):
        incremental.run_sweep([Run("n=40", 0, longer, "c-seed0")], tmp_path, until=until, progress=False)
        table = select(run_folder.read_table(tmp_path / "c-seed0"), "Loss", "excess")
        assert sorted(table["step"]) == steps


def test_a_second_call_trains_nothing_and_says_the_same(swept: tuple[Path, pd.DataFrame]) -> None:
    folder, summary = swept
    weights = {path: path.stat().st_mtime_ns for path in folder.rglob("*.safetensors")}
    again = incremental.run_sweep(SWEEP, folder, progress=False)  # the folders refer to their baselines already
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.safetensors")} == weights
    pd.testing.assert_frame_equal(again, summary)


@pytest.mark.slow
def test_two_processes_find_what_one_finds(swept: tuple[Path, pd.DataFrame], tmp_path: Path) -> None:
    beside = incremental.run_sweep(SWEEP, tmp_path, restricted=True, workers=2, progress=False)
    pd.testing.assert_frame_equal(beside, swept[1])


def test_measuring_a_run_of_a_sweep_anew_keeps_its_shared_baselines(swept: tuple[Path, pd.DataFrame]) -> None:
    folder, _ = swept
    references = set(load_batch(tiny(40), folder / "a-seed0").references)
    assert {"trained c=1", "trained c=2"} <= references


def test_a_shared_baseline_that_was_moved_is_named(swept: tuple[Path, pd.DataFrame], tmp_path: Path) -> None:
    folder, _ = swept
    shutil.copytree(folder / "a-seed0", tmp_path / "a-seed0")
    with pytest.raises(FileNotFoundError, match=r"refers to missing baselines: .*baselines"):
        _linked_baselines(tmp_path / "a-seed0")


@pytest.mark.slow
@pytest.mark.parametrize(("figure", "axes"), {"1": 2, "4R": 2, "5": 3, "6": 2, "7": 2, "B": 4}.items())
def test_every_kind_of_figure_is_drawn(
    figure: str, axes: int, swept: tuple[Path, pd.DataFrame], tmp_path: Path
) -> None:
    folder, summary = swept
    measured = incremental_figures.measured_runs(folder, summary.iloc[:2])
    drawn = incremental_figures.draw(figure, measured, summary.iloc[:2])
    drawn.savefig(tmp_path / "figure.png")
    assert len(drawn.get_axes()) >= axes


@pytest.mark.slow
def test_early_stopping_takes_the_lowest_excess_and_the_closest_baseline(swept: tuple[Path, pd.DataFrame]) -> None:
    folder, _ = swept
    table = pd.read_parquet(folder / "a-seed0" / "tables" / "measurements.parquet")
    found = early_stop(table)
    excess = select(table, "Loss", "excess").set_index("step")["value"]
    assert (found.best_step, found.best_excess) == (excess.idxmin(), excess.min())
    kl = select(table, "KLToReference", "kl", step=found.best_step).set_index("reference")["value"]
    assert found.completed == (1 if kl["trained c=1"] < kl["trained c=2"] else 2)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("small")  # the sweeps share their common runs


def by_seed(figure: str, folder: Path) -> list[pd.DataFrame]:
    summary = incremental.run_figure(figure, folder, progress=False)
    assert summary["seed"].nunique() == 3
    heads = {run.name: run.recipe.architecture.n_heads for run in runs(figure, seeds=(0, 1, 2))}
    alike = {row["run"]: row["distinct_heads"] for row in summary.to_dict("records") if row["variant"] != "scale=0.0"}
    assert alike == {name: heads[name] for name in alike}
    return [rows.set_index("variant") for _, rows in summary.groupby("seed")]


@pytest.mark.slow
def test_more_data_never_means_fewer_completed_stages(small: Path) -> None:
    for rows in by_seed("5", small):
        assert rows["completed"].is_monotonic_increasing
        assert rows["completed"].iloc[[0, -1]].tolist() == [1, 3]
        assert rows["best_excess"].is_monotonic_decreasing


@pytest.mark.slow
def test_a_smaller_initial_scale_ends_the_first_stage_later_and_zero_never(small: Path) -> None:
    for rows in by_seed("4L", small):
        assert rows.loc[["scale=xavier", "scale=0.001", "scale=1e-06"], "end_1"].is_monotonic_increasing
        assert rows["distinct_heads"]["scale=0.0"] == 1
        assert rows["stages"]["scale=0.0"] == 1
        assert rows["final_kl"]["scale=0.0"] > 5 * rows["final_kl"]["scale=0.001"]


@pytest.mark.slow
def test_a_steeper_hierarchy_ends_its_stages_later_and_none_has_no_stages(small: Path) -> None:
    for rows in by_seed("4R", small):
        assert rows["stages"].iloc[[0, -2]].tolist() == [1, 3]
        assert rows["end_2"].dropna().is_monotonic_increasing


@pytest.mark.slow
def test_two_heads_stop_on_the_second_plateau(small: Path) -> None:
    for rows in by_seed("heads", small):
        assert rows["stages"]["heads=2"] < 3
        assert rows["final_kl"]["heads=2"] > 3 * rows["final_kl"]["heads=3"]


@pytest.mark.slow
def test_with_reversed_importance_all_heads_look_at_the_farthest_group_first(small: Path) -> None:
    for rows in by_seed("8", small):
        table = run_folder.read_table(small / rows["folder"]["reversed"])
        masses = select(table, "AttentionTo", "mass", step=int(rows["end_1"]["reversed"]))
        top = masses.loc[masses.groupby("head")["value"].idxmax(), "relation"]
        assert set(top) == {"I(1)"}
        assert rows["stages"]["reversed"] == 3
