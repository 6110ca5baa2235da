"""The run folder of the WikiText model: it is measured and reported on like any other, and trained by nothing else."""

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

from stagewise.analysis import analyse
from stagewise.checkpoints.run_folder import METRICS, read_table
from stagewise.checkpoints.series import open_series
from stagewise.cli.app import app
from stagewise.measurement.probe_batch import load_batch
from stagewise.papers.scan_and_snap._wikitext_model import columns
from stagewise.papers.scan_and_snap._wikitext_training import COLUMNS, Look, Setting, Trained, train_baseline
from stagewise.papers.scan_and_snap.wikitext_hooked import hooked_weights
from stagewise.papers.scan_and_snap.wikitext_recipe import baseline_recipe, basic_english, saved_steps
from stagewise.probes import HeadAblation, Loss
from stagewise.replay.densifying import densify_steps, recipe_at
from stagewise.training import train

pytestmark = [
    pytest.mark.usefixtures("unchecked", "few_sequences", "undrawn"),
    pytest.mark.hooked_only("its norms are parameters of hook points"),
]

KINDS = {"HeadSpecialisation", "RestrictedContextKL", "HeadAblation", "PatternClusters"}
LINEAGE = "Where the kinds of attention come from"
TITLES = ("What each head attends to", "How much context is used", "Which heads are needed", LINEAGE)
"""Of the report's sections on the four kinds."""

SETTING = Setting("sgd", 5.0, 10.0, steps=3, n_layers=2)


def trained(folder: Path, data: str, looks: Mapping[int, Look] | None = None) -> Trained:
    task = basic_english(data)
    rows = columns(task.corpus().ids["train"], COLUMNS)
    recipe = baseline_recipe(SETTING, task, checkpoints=3)
    return train_baseline(SETTING, rows, task.d_vocab, looks or {}, folder, recipe=recipe, progress=False)


@pytest.fixture(scope="module")
def folder(letters: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run of two layers on eight words. Copy it before changing anything but its tables."""
    path = tmp_path_factory.mktemp("runs") / "wikitext"
    trained(path, letters)
    return path


def call(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize(
    "only", [(*sorted(KINDS), "Loss"), pytest.param((), marks=pytest.mark.slow)], ids=["kinds", "all"]
)
def test_the_commands_measure_and_report_on_it_with_all_four_kinds_of_probes(only: Sequence[str], folder: Path) -> None:
    call("measure", str(folder), "--quiet", *(word for probe in only for word in ("--only", probe)))
    table = read_table(folder)
    assert set(table["step"]) == {0, 1, 3}
    assert set(only) == set(table["probe"]) or len(set(table["probe"])) > 15
    of_kinds = table[table["probe"].isin(KINDS) & table["value"].notna()].groupby("probe")["step"].nunique()
    assert of_kinds.to_dict() == dict.fromkeys(KINDS, 3)
    assert set(table["relation"].dropna()) == {"previous token", "duplicate token", "induction"}
    assert str(folder / "report.html") in call("report", str(folder), "--quiet")
    page = (folder / "report.html").read_text(encoding="utf8")
    assert [title for title in TITLES if f"<h2>{title}" not in page] == []


@pytest.mark.slow
def test_analyse_takes_its_series(folder: Path, tmp_path: Path) -> None:
    analysis = analyse(open_series(folder), tmp_path / "analysis", probes=[Loss(), HeadAblation()], progress=False)
    assert set(analysis.table["probe"]) == {"Loss", "HeadAblation"}
    assert analysis.report.exists()


@pytest.mark.slow
def test_the_measured_loss_is_that_of_the_torch_module(folder: Path, letters: str, tmp_path: Path) -> None:
    model = trained(tmp_path / "again", letters, {3: copy.deepcopy}).seen[3].eval()
    expected = hooked_weights(model.state_dict())
    assert all(torch.equal(weight, expected[name]) for name, weight in open_series(folder).weights(3).items())
    batch = load_batch(recipe_at(folder), folder)
    with torch.no_grad():
        logits = model(batch.tokens.T)[0].transpose(0, 1)
    own = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.targets.flatten()).item()
    call("measure", str(folder), "--quiet", "--only", "Loss")
    table = read_table(folder)
    measured = table[(table["probe"] == "Loss") & (table["quantity"] == "cross_entropy") & (table["step"] == 3)]
    assert measured["n"].item() == len(batch.tokens)
    assert measured["value"].item() == pytest.approx(own, abs=1e-5)


def test_the_record_is_the_setting_and_the_metrics_are_those_of_training(folder: Path, letters: str) -> None:
    recipe = recipe_at(folder)
    assert recipe == baseline_recipe(SETTING, basic_english(letters), checkpoints=3)
    assert (recipe.plan.learning_rate, recipe.plan.rates) == (5.0, {"blocks.0.mlp.*": 10.0})
    metrics = pd.read_parquet(folder / METRICS)
    assert metrics["step"].tolist() == [0, 1, 2]
    assert metrics["gradient_norm"].min() > 0
    losses = trained(folder, letters).losses  # a finished run is read
    assert metrics["loss"].tolist() == losses


def test_nothing_else_trains_or_replays_it(folder: Path, tmp_path: Path) -> None:
    alone = r"is trained by `stagewise run wikitext-baseline` .* alone"
    with pytest.raises(ValueError, match=alone):
        densify_steps(folder, [2], progress=False)
    with pytest.raises(ValueError, match=alone):
        train(recipe_at(folder), tmp_path / "again", progress=False)
    assert open_series(folder).steps == (0, 1, 3)
    assert train(recipe_at(folder), folder, progress=False).steps == (0, 1, 3)  # a finished run is opened


@pytest.mark.parametrize("steps", [1, 2, 60, 300, 1500, 2929])
@pytest.mark.parametrize("checkpoints", [2, 8, 12])
def test_saved_steps_are_log_spaced_over_two_decades(steps: int, checkpoints: int) -> None:
    saved = sorted(saved_steps(steps, checkpoints))
    assert (saved[0], saved[-1]) == (0, steps)
    assert len(saved) == checkpoints or steps < 100
    ratios = np.divide(saved[2:], saved[1:-1])
    if steps >= 300 and checkpoints > 2:
        assert saved[1] == pytest.approx(steps / 100, abs=0.5)
        assert ratios == pytest.approx(100 ** (1 / (checkpoints - 2)), rel=0.3)


@pytest.mark.parametrize("checkpoints", [1, -3])
def test_a_number_that_leaves_the_last_step_out_is_refused(checkpoints: int, letters: str) -> None:
    with pytest.raises(ValueError, match=f"take 2 checkpoints or more, or 0, got {checkpoints}"):
        baseline_recipe(SETTING, basic_english(letters), checkpoints)
