"""Transformers on recall and regression: runs from training to their emergence time."""

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from stagewise.checkpoints import run_folder
from stagewise.checkpoints._checksums import LIST
from stagewise.checkpoints._writing import LOCK
from stagewise.papers.emergence import _runs as runs
from stagewise.papers.emergence._runs import (
    Learned,
    measured,
    run_path,
    run_recall,
    run_regression,
    trained_on,
    trained_recall,
    until_below,
)
from stagewise.papers.emergence.recipes import recall_recipe
from stagewise.papers.power_law import fit_interval_censored
from stagewise.probes import Accuracy
from stagewise.table import select


def test_a_short_recall_run_is_censored_and_kept(tmp_path: Path) -> None:
    parameters = {"n_pairs": 4, "n_tokens": 16, "seed": 0, "budget": 60}
    found = run_recall(str(tmp_path), **parameters)
    assert (found["lo"], found["hi"]) == (60, math.inf)
    (folder,) = tmp_path.iterdir()
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert run_recall(str(tmp_path), **parameters) == found
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


@pytest.mark.slow
def test_a_run_ends_two_checkpoints_after_its_losses_lie_below_a_level(tmp_path: Path) -> None:
    recipe = recall_recipe(4, 16, budget=1000)
    table = measured(recipe, tmp_path / "learned", [Accuracy()], log=until_below(math.inf, recipe))
    assert table["step"].unique().tolist() == [0, 50]


@pytest.mark.parametrize(("n_copies", "last"), [(1, 1), pytest.param(2, 8, marks=pytest.mark.slow)])
def test_a_regression_without_repetition_ends_once_it_is_learned(
    n_copies: int, last: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "REGRESSED", math.inf)
    parameters = {"n_positions": 4, "d": 2, "n_copies": n_copies, "budget": 8, "every": 1}
    assert math.isinf(run_regression(str(tmp_path), **parameters)["hi"])
    assert run_folder.read_table(run_path("regression", tmp_path, **parameters))["step"].max() == last


def test_a_loss_that_comes_back_is_not_learned() -> None:
    log = until_below(0.5, recall_recipe(4, 16, budget=1000))
    for step in range(1000):
        log({"step": step, "loss": 0.01 if step % 50 else 1.0})
    for step in range(1000, 1050):
        log({"step": step, "loss": 0.01})
    with pytest.raises(Learned):
        log({"step": 1050, "loss": 0.01})


def test_sizes_at_which_chance_is_half_right_are_no_measurement(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the curve starts past the threshold 0\.5"):
        run_recall(str(tmp_path), n_pairs=1, n_tokens=2, budget=1)


def test_a_short_regression_run_is_censored_and_its_weights_are_not_kept(tmp_path: Path) -> None:
    found = run_regression(str(tmp_path), n_positions=4, d=2, budget=2, every=1)
    assert found == {"lo": 2, "hi": math.inf, "lo_80": 2, "hi_80": math.inf}
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file() and path.name not in (LIST, LOCK)) == [
        "measurements.parquet",
        "metrics.parquet",
        "run.json",
    ]


@pytest.mark.slow
def test_the_transformer_learns_regression_when_the_law_says(tmp_path: Path) -> None:
    found = run_regression(str(tmp_path), n_positions=32, d=16, budget=720, every=20)
    print(f"check 9: a fifth of the plateau in steps ({found['lo']:g}, {found['hi']:g}], the law 435")
    assert 300 <= found["lo"] < found["hi"] <= 700


@pytest.fixture(scope="module")
def recall_runs(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """Two seeds of eight and twelve pairs with one copy, and of twelve pairs with two."""
    folder = str(tmp_path_factory.mktemp("recall"))
    conditions: list[dict[str, Any]] = [
        {"n_pairs": n, "n_tokens": 64, "n_copies": B, "seed": seed, "budget": budget}
        for n, B, budget in ((8, 1.0, 3500), (12, 1.0, 5500), (12, 2.0, 3000))
        for seed in (0, 1)
    ]
    return pd.DataFrame(
        [{**each, **run_recall(folder, **each), "table": trained_recall(folder, **each)} for each in conditions]
    )


@pytest.mark.slow
def test_recall_rises_abruptly_after_its_plateau(recall_runs: pd.DataFrame) -> None:
    for run in recall_runs.query("n_pairs == 12 and n_copies == 1").to_dict("records"):
        accuracy = select(run["table"], "Accuracy", "accuracy")
        until, width = 0.9 * run["lo_20"], run["hi_90"] - run["lo_20"]
        plateau = accuracy[accuracy["step"] <= until]["value"].max()
        print(f"check 10: accuracy at most {plateau:.3f} until {until:g}, .2 to .9 in {width:g} steps")
        assert plateau <= 1.5 / 12
        assert 350 <= width <= 700


@pytest.mark.slow
def test_more_pairs_take_longer_by_a_power(recall_runs: pd.DataFrame) -> None:
    law = fit_interval_censored(recall_runs.query("n_copies == 1"), "n_pairs")
    print(f"check 10: {law}")
    assert 1.4 <= law.exponent("n_pairs") <= 2.2


@pytest.mark.slow
def test_two_copies_are_at_least_1_6_times_faster(recall_runs: pd.DataFrame) -> None:
    times = recall_runs.query("n_pairs == 12").groupby("n_copies")[["lo_50", "hi_50"]].mean()
    ratio = times["lo_50"].loc[1.0] / times["hi_50"].loc[2.0]
    print(f"check 10: two copies at least {ratio:.2f} times faster")
    assert ratio >= 1.6


@pytest.mark.slow
def test_accuracy_in_training_is_measured_where_the_distributions_differ(tmp_path: Path) -> None:
    same: dict[str, Any] = {
        "n_pairs": 2,
        "n_tokens": 8,
        "n_copies": 1.0,
        "p": 0.0,
        "seed": 0,
        "budget": 1,
        "setting": "small",
    }
    other = same | {"n_copies": 2.0}
    tables = {}
    for name, parameters in (("same", same), ("other", other)):
        table = trained_recall(str(tmp_path), **parameters)
        tables[name] = table, trained_on(run_path("recall", tmp_path, **parameters))
    pd.testing.assert_frame_equal(*tables["same"])
    test, training = tables["other"]
    assert set(training["probe"]) == {"Accuracy"}
    assert set(training["step"]) == set(test["step"])
