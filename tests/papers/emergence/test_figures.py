"""The figures of the emergence of sparse attention, from the command line to the picture, and what is refused."""

import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from stagewise.cli.app import app
from stagewise.papers.emergence import figures as emergence
from stagewise.papers.emergence._grids import GRIDS, FigureRequest, axes_of
from stagewise.papers.emergence._recall import recall_settings
from stagewise.papers.emergence._runs import run_recall
from stagewise.sweeping import sweep

pytestmark = pytest.mark.usefixtures("unchecked")

ROOT = Path(__file__).parents[3]


def ask(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["run", "emergence", "--quiet", *arguments])
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "--figure 18",
            "no figure 18 here; there are 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, values, heads, "
            "schedules, repetition, fixed, embeddings, norms",
        ),
        ("--figure 6 --grid T=8", "the grid of figure 6 has no axis 'T'; it has none"),
        ("--figure 14 --grid T=1", "n_positions=1"),
        ("--setting big", "got 'big'"),
        ("--figure 4 --grid N_pairs=64 --grid N_tokens=32", "got n_pairs=64, n_tokens=32"),
        ("--figure 5 --grid p=1.5", "from 0 to 1, got 1.5"),
        ("--figure 5 --grid p=nan", "AssociativeRecall.p: expected a finite number from 0 to 1, got nan"),
        ("--figure 5 --grid B=13", "of the n_pairs = 12 slots, at least 1; got 13"),
        ("--figure 5 --grid B=0", "at least 1; got 0"),
        ("--figure 5 --grid N_pairs=8,12", "takes one N_pairs, got 8, 12"),
        ("--figure 2 --grid T=4 --grid B=8", "n_copies=8, n_positions=4"),
        ("--figure 3 --grid d=0", "SparseRegression.d: expected a whole number of at least 1, got 0"),
        ("--figure 1 --budget 2", "the budget, 2 steps, must reach the second evaluation"),
        ("--figure 1 --workers 0", "at least one worker, got 0"),
    ],
)
def test_what_has_no_meaning_is_one_line_and_trains_nothing(arguments: str, message: str, tmp_path: Path) -> None:
    code, output = ask(*arguments.split(), "--folder", str(tmp_path))
    assert (code, message in output, list(tmp_path.iterdir())) == (2, True, [])


@pytest.mark.slow
def test_runs_that_are_all_censored_give_a_figure_and_no_law(tmp_path: Path) -> None:
    given = {"N_pairs": (2, 3), "N_tokens": (8,), "seed": (0,)}
    wanted = FigureRequest(tmp_path / "figure-4-small", "small", axes_of(4, "small", given), budget=2)
    settings = recall_settings(wanted)
    with concurrent.futures.ThreadPoolExecutor(1) as here:
        sweep(run_recall, settings, wanted.folder, here, progress=False)
    axes = [part for name in given for part in ("--grid", f"{name}={','.join(map(str, given[name]))}")]
    code, _ = ask("--figure", "4", "--budget", "2", *axes, "--folder", str(tmp_path))
    assert code == 0
    numbers = pd.read_csv(emergence.figure_path(tmp_path, 4, "small", "csv")).to_string()
    assert "no law: all 2 runs are censored: none emerged within its budget" in numbers
    assert "no run of 2 rose" in numbers
    assert emergence.figure_path(tmp_path, 4, "small").stat().st_size > 10_000
    (page,) = tmp_path.rglob("report.html")
    assert "Nothing emerged in this run" in page.read_text(encoding="utf8")


def test_every_figure_of_the_paper_has_a_grid_in_both_settings() -> None:
    assert (
        list(emergence.FIGURES)
        == list(GRIDS)
        == [*range(1, 18), "values", "heads", "schedules", "repetition", "fixed", "embeddings", "norms"]
    )
    assert all(set(settings) == {"small", "paper"} for settings in GRIDS.values())


@pytest.mark.slow
def test_a_grid_of_the_toy_model_survives_being_killed_twice(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from stagewise.cli.app import app; app()", "run", "emergence", "--quiet"]
    command += ["--folder", str(tmp_path), "--grid", "T=16,32", "--grid", "d=8"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    kept: dict[Path, int] = {}
    for least in (2, 5):
        running = subprocess.Popen(command, env=environment, start_new_session=True)
        while len(list(tmp_path.rglob("results/*.json"))) < least and running.poll() is None:
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
    result = emergence.run(figure, "small", tmp_path, progress=False)
    assert len(list(tmp_path.rglob("results/*.json"))) >= 60
    rows = result.numbers.set_index("quantity")
    assert not rows["ours"].str.contains("nan|no law").any()
    lo, hi = json.loads(str(rows.loc["SGD steps over the flow's time, B = 1", "interval"]))
    assert lo <= 1 <= hi
