"""The figures of the emergence of sparse attention, from the command line to the picture, and what is refused."""

import concurrent.futures
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from stagewise import models
from stagewise.cli.app import app
from stagewise.detection.power_law import PowerLaw
from stagewise.experiments.emergence import figures as emergence
from stagewise.experiments.emergence.grids import Wanted, axes_of
from stagewise.experiments.emergence.numbers import law_of
from stagewise.experiments.emergence.recall import recall_settings
from stagewise.experiments.emergence.recipes import (
    recall_recipe,
    regression_recipe,
    run_recall,
    run_regression,
    trained_recall,
)
from stagewise.sweeping import sweep
from stagewise.table import select

ROOT = Path(__file__).parents[3]


def ask(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["run", "emergence", "--quiet", *arguments])
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--figure 9", "no figure 9 here; there are 1, 2, 3, 4, 5, 17"),
        ("--setting big", "got 'big'"),
        ("--figure 4 --grid N_pairs=64 --grid N_tokens=32", "got n_pairs=64, n_tokens=32"),
        ("--figure 5 --grid p=1.5", "between 0 and 1; got 1.5"),
        ("--figure 5 --grid p=nan", "between 0 and 1; got nan"),
        ("--figure 5 --grid B=13", "of the n_pairs = 12 slots, at least 1; got 13"),
        ("--figure 5 --grid B=0", "at least 1; got 0"),
        ("--figure 5 --grid N_pairs=8,12", "takes one N_pairs, got 8, 12"),
        ("--figure 2 --grid T=4 --grid B=8", "n_copies=8, n_positions=4"),
        ("--figure 3 --grid d=0", "got d=0"),
        ("--figure 1 --budget 2", "the budget, 2 steps, must reach the second evaluation"),
        ("--figure 1 --workers 0", "at least one worker, got 0"),
    ],
)
def test_what_has_no_meaning_is_one_line_and_trains_nothing(arguments: str, message: str, tmp_path: Path) -> None:
    code, output = ask(*arguments.split(), "--folder", str(tmp_path))
    assert (code, message in output, list(tmp_path.iterdir())) == (2, True, [])


def test_runs_that_are_all_censored_give_a_figure_and_no_law(tmp_path: Path) -> None:
    given = {"N_pairs": (2, 3), "N_tokens": (8,), "seed": (0,)}
    wanted = Wanted(tmp_path / "figure-4-small", "small", axes_of(4, "small", given), budget=2)
    settings = recall_settings(wanted)
    with concurrent.futures.ThreadPoolExecutor(1) as here:
        sweep(run_recall, settings, wanted.folder, here, progress=False)
    axes = [part for name in given for part in ("--grid", f"{name}={','.join(map(str, given[name]))}")]
    code, output = ask("--figure", "4", "--budget", "2", *axes, "--folder", str(tmp_path))
    assert code == 0
    assert "no law: all 2 runs are censored: none emerged within its budget" in output
    assert "no run of 2 rose" in output
    assert emergence.figure_path(tmp_path, 4, "small").stat().st_size > 10_000
    (page,) = tmp_path.rglob("report.html")
    assert "Nothing emerged in this run" in page.read_text(encoding="utf8")


def test_a_short_recall_run_is_censored_and_kept(tmp_path: Path) -> None:
    parameters = {"n_pairs": 4, "n_tokens": 16, "seed": 0, "budget": 60}
    found = run_recall(str(tmp_path), **parameters)
    assert (found["lo"], found["hi"]) == (60, math.inf)
    (folder,) = tmp_path.iterdir()
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert run_recall(str(tmp_path), **parameters) == found
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_sizes_at_which_chance_is_half_right_are_no_measurement(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the curve starts past the threshold 0\.5"):
        run_recall(str(tmp_path), n_pairs=1, n_tokens=2, budget=1)


def test_a_short_regression_run_is_censored_and_its_weights_are_not_kept(tmp_path: Path) -> None:
    found = run_regression(str(tmp_path), n_positions=4, d=2, budget=2, every=1)
    assert found == {"lo": 2, "hi": math.inf}
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [
        "measurements.parquet",
        "metrics.parquet",
        "run.json",
    ]


def test_the_papers_sizes_build() -> None:
    recall = recall_recipe(8, 32, setting="paper").architecture
    assert (recall.n_layers, recall.n_heads, recall.config["d_mlp"]) == (4, 4, 1024)
    regression = models.build(regression_recipe(16, 8).architecture)
    assert regression.cfg.to_dict()["d_vocab_out"] == 8
    assert regression.cfg.normalization_type is None


@pytest.mark.slow
def test_a_grid_of_the_toy_model_survives_being_killed_twice(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from stagewise.cli.app import app; app()", "run", "emergence", "--quiet"]
    command += ["--folder", str(tmp_path), "--grid", "T=16,32", "--grid", "d=8"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    kept: dict[Path, int] = {}
    for least in (2, 5):
        running = subprocess.Popen(command, env=environment, start_new_session=True)
        deadline = time.monotonic() + 120
        while len(list(tmp_path.rglob("results/*.json"))) < least and time.monotonic() < deadline:
            time.sleep(0.02)
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        there = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("results/*.json")}
        assert least <= len(there) < 10
        assert kept.items() <= there.items()
        kept = there
    subprocess.run(command, env=environment, check=True, capture_output=True)
    there = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("results/*.json")}
    assert len(there) == 10
    assert kept.items() <= there.items()


@pytest.mark.slow
@pytest.mark.parametrize("figure", [1, 2])
def test_a_sweep_of_sixty_toy_runs_follows_the_flow(figure: int, tmp_path: Path) -> None:
    started = time.monotonic()
    result = emergence.run(figure, "small", tmp_path, progress=False)
    results = list(tmp_path.rglob("results/*.json"))
    print(f"figure {figure}: {len(results)} runs in {time.monotonic() - started:.0f} s")
    print(emergence.in_words(result.numbers))
    assert len(results) >= 60
    assert emergence.figure_path(tmp_path, figure, "small").stat().st_size > 10_000
    assert not result.numbers["ours"].str.contains("nan|no law").any()


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
        plateau = accuracy[accuracy["step"] <= 0.9 * run["lo_20"]]["value"].max()
        width = run["hi_90"] - run["lo_20"]
        print(f"check 10: accuracy at most {plateau:.3f} until {0.9 * run['lo_20']:g}, .2 to .9 in {width:g} steps")
        assert plateau <= 1.5 / 12
        assert 350 <= width <= 700


@pytest.mark.slow
def test_more_pairs_take_longer_by_a_power(recall_runs: pd.DataFrame) -> None:
    law = law_of(recall_runs.query("n_copies == 1"), ["n_pairs"])
    print(f"check 10: {law}")
    assert isinstance(law, PowerLaw)
    assert 1.4 <= law.exponent("n_pairs") <= 2.2


@pytest.mark.slow
def test_two_copies_are_at_least_1_6_times_faster(recall_runs: pd.DataFrame) -> None:
    times = recall_runs.query("n_pairs == 12").groupby("n_copies")[["lo_50", "hi_50"]].mean()
    ratio = times["lo_50"][1.0] / times["hi_50"][2.0]
    print(f"check 10: two copies at least {ratio:.2f} times faster")
    assert ratio >= 1.6
