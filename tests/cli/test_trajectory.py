"""`stagewise series trajectory` and `relations`: a table and two figures beside the run; lines on its heads."""

import shutil
import sys
from pathlib import Path
from typing import get_type_hints

import pandas as pd
import pytest
from typer.testing import CliRunner

from stagewise.analysis import measure_run
from stagewise.cli._trajectory import SamplerOptions, lines
from stagewise.cli.app import app
from stagewise.measurement._langevin import DEFAULT
from stagewise.probes import Loss
from stagewise.recipe import Recipe
from stagewise.table import declared

pytestmark = pytest.mark.usefixtures("few_sequences", "undrawn", "unchecked")


def test_a_run_gets_a_table(small_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(small_folder, tmp_path / "run"))
    result = CliRunner().invoke(app, ["series", "trajectory", str(folder), "--quiet"])
    assert result.exit_code == 0, result.output
    table = pd.read_parquet(folder / "tables" / "comparisons.parquet")
    assert declared(table)["LinearCKA"]["alignment"].label == "linear CKA of the residual stream"
    assert set(table["probe"]) == {"LinearCKA", "Trajectory"}
    assert set(table["step"]) == {0, 2, 4, 6}


@pytest.mark.slow
def test_checkpoints_trained_elsewhere_are_compared_too(checkpoints: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = CliRunner().invoke(app, ["series", "trajectory", str(checkpoints), "--out", str(out), "--quiet"])
    assert result.exit_code == 0, result.output
    assert set(pd.read_parquet(out / "tables" / "comparisons.parquet")["probe"]) >= {"LinearCKA", "Trajectory"}


def test_a_folder_without_checkpoints_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["series", "trajectory", str(tmp_path)])
    assert result.exit_code != 0
    assert "checkpoint" in result.output


def test_the_folder_of_another_source_is_refused(checkpoints: Path, small_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(small_folder, tmp_path / "run"))
    result = CliRunner().invoke(app, ["series", "trajectory", str(checkpoints), "--out", str(folder), "--quiet"])
    assert result.exit_code == 2
    assert "holds measurements of the run in it" in " ".join(result.output.split())
    assert not (folder / "tables" / "comparisons.parquet").exists()


def test_heads_that_nothing_explains_are_counted(small_folder: Path) -> None:
    result = CliRunner().invoke(app, ["series", "relations", str(small_folder), "--step", "0"])
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[-1].startswith("2 heads: ")


def test_a_proposal_is_a_line_with_two_examples(small_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"layer": 0, "head": 1, "relation": "offset 3", "known": False, "explained": 0.8, "chance": 0.1}
    row |= {"error": 0.01, "queries": 0.5, "examples": [(1, 3, 0), (3, 3, 0)]}
    monkeypatch.setattr("stagewise.measurement.relation_search.propose_relations", lambda *_, **__: pd.DataFrame([row]))
    first, last = CliRunner().invoke(app, ["series", "relations", str(small_folder)]).output.splitlines()
    assert first.startswith('L0H1 "offset 3": 0.80 of the attention (chance 0.10, error 0.010) of 50% of the queries; ')
    assert first.count("sequence ") == 2
    assert last == "1 heads: 0 attend to a relation of the batch, 1 to one proposed here, 0 to none that was found"


def test_a_step_that_is_not_there_is_refused(small_folder: Path) -> None:
    result = CliRunner().invoke(app, ["series", "relations", str(small_folder), "--step", "3"])
    assert result.exit_code == 2
    assert "has no step 3" in " ".join(result.output.split())


pytest.importorskip("devinterp")
SHORT = ("--draws", "4", "--burn-in", "2", "--chains", "2", "--quiet")
TABLE = Path("tables", "learning-coefficients.parquet")


@pytest.fixture
def run(small_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(small_folder, tmp_path / "run"))


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["series", "llc", *arguments])
    return result.exit_code, " ".join(result.output.split())


def test_a_run_gets_a_table_and_a_section(run: Path, small_recipe: Recipe) -> None:
    measure_run(small_recipe, run, probes=[Loss()], progress=False)
    status, printed = call(str(run), "--heads", *SHORT)
    assert status == 0, printed
    assert "12 coefficients of 4 checkpoints are sampled in 144 updates: less than a minute" in printed
    table = pd.read_parquet(run / TABLE)
    assert set(table["step"]) == {0, 2, 4, 6}
    assert set(table["quantity"]) == set(declared(table)["LearningCoefficient"])
    last = table[(table["step"] == 6) & (table["quantity"] == "whole_model")].iloc[0]
    assert f"step 6: {last['value']:.1f} [{last['lo']:.1f}, {last['hi']:.1f}]" in printed
    page = (run / "report.html").read_text(encoding="utf8")
    assert "How degenerate the loss is" in page
    assert "Below: of each head" in page


def test_without_a_table_of_measurements_there_is_no_report(run: Path) -> None:
    status, printed = call(str(run), "--checkpoints", "2", *SHORT)
    assert (status, "report" in printed) == (0, False), printed
    assert set(pd.read_parquet(run / TABLE)["step"]) == {0, 6}


@pytest.mark.slow
def test_a_single_chain_has_no_interval(run: Path) -> None:
    status, printed = call(str(run), "--checkpoints", "2", "--draws", "2", "--burn-in", "0", "--chains", "1", "--quiet")
    assert status == 0, printed
    value = pd.read_parquet(run / TABLE).query("step == 6 and quantity == 'whole_model'")["value"].item()
    assert f"step 6: {value:.1f}, drift" in printed


def test_the_cost_is_said_and_nothing_done_on_a_dry_run(run: Path) -> None:
    status, printed = call(str(run), "--dry-run")
    assert (status, "4 coefficients of 4 checkpoints are sampled in 9600 updates" in printed) == (0, True)
    assert not (run / TABLE).exists()


def test_a_burn_in_that_is_too_short_is_named_before_anything_is_sampled(run: Path) -> None:
    _, hasty = call(str(run), "--dry-run", "--localization", "0.1", "--burn-in", "7")
    assert "and the draws begin after 7: take a burn-in of" in hasty
    _, patient = call(str(run), "--dry-run", "--localization", "100000")
    assert "burn-in" not in patient


@pytest.mark.slow
def test_what_is_there_is_not_sampled_again(run: Path) -> None:
    call(str(run), *SHORT)
    before = pd.read_parquet(run / TABLE)
    status, printed = call(str(run), *SHORT)
    assert (status, "all coefficients are there already" in printed) == (0, True)
    assert pd.read_parquet(run / TABLE).equals(before)


@pytest.mark.slow
def test_checkpoints_trained_elsewhere_are_sampled_too(checkpoints: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    status, printed = call(str(checkpoints), "--out", str(out), *SHORT)
    assert status == 0, printed
    assert len(pd.read_parquet(out / TABLE)) >= 2


def test_the_folder_of_another_source_is_refused_of_llc(checkpoints: Path, run: Path) -> None:
    status, printed = call(str(checkpoints), "--out", str(run), *SHORT)
    assert status == 2
    assert "holds measurements of the run in it" in printed
    assert not (run / TABLE).exists()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--draws", "0"], "Sampler.draws: expected a whole number of at least 1, got 0"),
        (["--step-size", "0"], "Sampler.step_size: expected"),
        (["--device", "nowhere"], "nowhere"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_sampled(wrong: list[str], message: str, run: Path) -> None:
    status, printed = call(str(run), *wrong)
    assert (status, message in printed) == (2, True), printed
    assert not (run / "tables" / "sampled").exists()


def test_without_devinterp_a_line_says_what_to_install(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "devinterp.optim", None)
    status, printed = call(str(run))
    assert (status, "there is no devinterp: `pip install 'stagewise[llc]'`" in printed) == (2, True)


def test_a_folder_without_checkpoints_is_refused_of_llc(tmp_path: Path) -> None:
    status, printed = call(str(tmp_path))
    assert (status, "checkpoint" in printed) == (2, True)


@pytest.mark.parametrize("name", ["step_size", "localization", "draws", "burn_in", "chains"])
def test_the_defaults_in_the_help_are_the_samplers(name: str) -> None:
    (option,) = get_type_hints(SamplerOptions, include_extras=True)[name].__metadata__
    assert option.help.endswith(f"; {getattr(DEFAULT, name):g} if not given")


def test_a_line_has_the_coefficient_with_its_interval_and_the_drift() -> None:
    rows = {"step": 90, "probe": "LearningCoefficient", "quantity": ["whole_model", "drift"]}
    rows |= {"value": [3.14, 0.2], "lo": [2.5, float("nan")], "hi": [3.75, float("nan")]}
    assert list(lines(pd.DataFrame(rows))) == ["step 90: 3.1 [2.5, 3.8], drift 0.2"]
