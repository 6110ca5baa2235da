"""The figures of the emergence of sparse attention: their numbers, and what is refused."""

import math
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from stagewise import model as models
from stagewise.cli import app
from stagewise.experiments import emergence
from stagewise.experiments.emergence_recipes import recall_recipe, regression_recipe, run_recall, run_regression
from stagewise.experiments.emergence_toy import cross_sample_times, descent_times, sgd_over_flow
from stagewise.experiments.emergence_transformers import rise_in_words
from stagewise.power_law import fit_log_linear


def test_the_laws_of_figures_1_and_2_are_as_published_or_known_to_differ() -> None:
    law = fit_log_linear(descent_times(), "T, d")
    assert law.constant == pytest.approx(1.51, abs=0.005)
    assert law.exponents == pytest.approx((0.99, 0.49), abs=0.005)
    shared = fit_log_linear(cross_sample_times(), "d ** 0.5 * T / f")
    assert shared.exponents[0] == pytest.approx(1.01, abs=0.02)
    assert shared.constant == pytest.approx(1.14, abs=0.1)  # 2.15 in the paper


def test_a_short_recall_run_is_censored_and_kept(tmp_path: Path) -> None:
    parameters = {"n_pairs": 4, "n_tokens": 16, "seed": 0, "budget": 60}
    found = run_recall(str(tmp_path), **parameters)
    assert (found["lo"], found["hi"]) == (60, math.inf)
    (folder,) = tmp_path.iterdir()
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert run_recall(str(tmp_path), **parameters) == found
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_a_short_regression_run_is_censored(tmp_path: Path) -> None:
    found = run_regression(str(tmp_path), n_positions=4, d=2, budget=2, every=1)
    assert found == {"lo": 2, "hi": math.inf}


def test_the_papers_sizes_build() -> None:
    recall = recall_recipe(8, 32, setting="paper").architecture
    assert (recall.n_layers, recall.n_heads, recall.config["d_mlp"]) == (4, 4, 1024)
    regression = models.build(regression_recipe(16, 8).architecture)
    assert regression.cfg.d_vocab_out == 8
    assert regression.cfg.normalization_type is None


def test_steps_are_compared_with_the_flow_of_the_same_size() -> None:
    runs = pd.DataFrame({"T": [512, 256], "d": [64, 64], "hi": [5319.27, 2 * 2694.82]})
    assert sgd_over_flow(runs) == pytest.approx(math.sqrt(2), rel=1e-4)


def test_rises_are_told_without_the_censored_ones() -> None:
    runs = pd.DataFrame({"lo_20": [100.0, 300.0, 500.0], "hi_90": [250.0, 700.0, math.inf]})
    assert rise_in_words(runs) == "150 to 400 in 2 of 3 runs; the others are censored"
    assert rise_in_words(runs.iloc[2:]) == "no run reached .9 within its budget"


def test_an_unknown_figure_or_setting_is_one_line() -> None:
    for arguments, message in ((["--figure", "9"], "no figure 9; there are 1, 2"), (["--setting", "big"], "got 'big'")):
        result = CliRunner().invoke(app, ["run", "emergence", *arguments])
        assert result.exit_code == 2
        assert message in result.output


def test_numbers_are_told_in_words() -> None:
    numbers = pd.DataFrame([{"what": "C", "published": "1", "ours": "2", "remark": "why"}])
    assert emergence.in_words(numbers) == "C   (why)\n  published  1\n  ours       2"


@pytest.mark.slow
@pytest.mark.parametrize("figure", [1, 2])
def test_a_sweep_of_sixty_toy_runs_follows_the_flow(figure: int, tmp_path: Path) -> None:
    result = emergence.run(figure, "small", tmp_path, progress=False)
    assert emergence.figure_path(tmp_path, figure, "small").stat().st_size > 10_000
    results = list(tmp_path.rglob("results/*.json"))
    assert len(results) >= 60
    assert not result.numbers["ours"].str.contains("nan").any()


@pytest.mark.slow
def test_the_transformer_learns_regression_when_the_law_says(tmp_path: Path) -> None:
    found = run_regression(str(tmp_path), n_positions=32, d=16, budget=720, every=20)
    assert 300 <= found["lo"] < found["hi"] <= 700


@pytest.fixture(scope="module")
def recall_runs(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """Twelve pairs, one copy and two, two seeds."""
    folder = str(tmp_path_factory.mktemp("recall"))
    conditions = [(B, seed, budget) for B, budget in ((1.0, 6000), (2.0, 4000)) for seed in (0, 1)]
    return pd.DataFrame(
        [
            {"B": B, "seed": seed}
            | dict(run_recall(folder, n_pairs=12, n_tokens=64, n_copies=B, seed=seed, budget=budget))
            for B, seed, budget in conditions
        ]
    )


@pytest.mark.slow
def test_recall_rises_abruptly_after_its_plateau(recall_runs: pd.DataFrame) -> None:
    alone = recall_runs[recall_runs["B"] == 1]
    assert (alone["lo_20"] > 2500).all()
    assert ((alone["hi_90"] - alone["lo_20"]) <= 700).all()


@pytest.mark.slow
def test_two_copies_are_at_least_1_6_times_faster(recall_runs: pd.DataFrame) -> None:
    times = recall_runs.groupby("B")[["lo_50", "hi_50"]].mean()
    assert times.loc[1.0, "lo_50"] / times.loc[2.0, "hi_50"] >= 1.6
