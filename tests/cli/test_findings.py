"""What the command line says of a table: stages, in words and as JSON."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from stagewise.checkpoints.run_folder import ANALYSIS, TABLE, write, write_json
from stagewise.cli._findings import show
from stagewise.cli.app import app
from stagewise.findings.stages import FRAMES, find_stages
from stagewise.recipe import Recipe
from stagewise.training import train
from stagewise.words import CAVEAT


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.output


def test_a_run_that_was_not_measured_has_no_findings_yet(tmp_path: Path) -> None:
    code, printed = call("stages", str(tmp_path))
    assert code == 2
    assert "measure the run first" in printed


@pytest.mark.slow
def test_what_a_foreign_batch_shows_stands_below_a_line_that_says_so(foreign: Path) -> None:
    code, printed = call("stages", str(foreign))
    first, caveat, *lines = printed.splitlines()
    assert (code, caveat) == (0, f"{CAVEAT}:")
    assert first.startswith("The probe batch is foreign to this model: its loss rises")
    assert any("L0H0" in line for line in lines)
    assert all(line.startswith("  ") for line in lines)
    data = json.loads(call("stages", str(foreign), "--json")[1])
    assert (data["probe_batch"]["foreign"], data["probe_batch"]["verdict"]) == (True, "rises")
    assert len(data["table"]) == 2


def test_of_a_run_that_is_not_finished_it_is_said_how_far_it_has_come(
    one_onset: pd.DataFrame, small_recipe: Recipe, tmp_path: Path
) -> None:
    train(small_recipe, tmp_path, progress=False, until=2)
    write(tmp_path / TABLE, lambda partial: one_onset.to_parquet(partial, index=False))
    first, *lines = call("stages", str(tmp_path))[1].splitlines()
    assert first == f"the run has come to step 2 of {small_recipe.plan.steps}: what comes later is not seen"
    assert lines[0].startswith("One transition was found. ")
    assert lines[1].startswith("stage 1, ")
    assert json.loads(call("stages", str(tmp_path), "--json")[1])["table"]
    train(small_recipe, tmp_path, progress=False)
    assert call("stages", str(tmp_path))[1].splitlines() == lines


def test_times_are_said_in_tokens_where_they_are_known_and_else_it_is_said_what_to_do(
    one_onset: pd.DataFrame, tmp_path: Path
) -> None:
    counted = one_onset.assign(tokens=2_097_152 * one_onset["step"])
    for name, table in {"counted": counted, "plain": one_onset}.items():
        write(tmp_path / name / TABLE, lambda partial, table=table: table.to_parquet(partial, index=False))  # type: ignore[misc]
    status, printed = call("stages", str(tmp_path / "counted"), "--axis", "tokens")
    assert (status, "Half-way at 2" in printed, "] tokens: L0H0 becomes" in printed) == (0, True, True)
    assert "stage 1, 0 to 2" in printed
    assert "at step" not in printed
    (_, second) = json.loads(call("stages", str(tmp_path / "counted"), "--axis", "tokens", "--json")[1])["table"]
    assert second["t50"] == pytest.approx(100 * 2_097_152, rel=0.1)
    status, printed = call("stages", str(tmp_path / "plain"), "--axis", "tokens")
    assert (status, "--tokens-per-step N" in printed) == (2, True)
    given = ("--axis", "tokens", "--tokens-per-step", "2097152")
    assert call("stages", str(tmp_path / "plain"), *given) == call("stages", str(tmp_path / "counted"), *given)
    status, printed = call("stages", str(tmp_path / "plain"), "--axis", "epochs")
    assert (status, "an axis is one of steps, tokens; got 'epochs'" in printed) == (2, True)
    assert call("stages", str(tmp_path / "plain"))[1].startswith("One transition was found. Half-way at step ")


def test_tokens_a_step_that_are_given_are_those_of_the_runs_that_do_not_say_them(
    one_onset: pd.DataFrame, tmp_path: Path
) -> None:
    runs = {"known": one_onset.assign(tokens=1000 * one_onset["step"]), "plain": one_onset}
    for name, table in runs.items():
        write(tmp_path / name / TABLE, table.assign(run=name).to_parquet)
        write_json(tmp_path / name / ANALYSIS, {"format": 1, "recipe": {}})
    both = [str(tmp_path / name) for name in runs]
    given = ("--axis", "tokens", "--tokens-per-step", "4000")
    for verb in (["stages"], ["series", "compare"], ["report", "--out", str(tmp_path / "page")]):
        status, printed = call(*verb, *both, *given)
        assert status == 0, printed
        times = np.array(re.findall(r"\b(\d+)k\b", printed), float)
        assert [abs(times - expected).min() <= 0.02 * expected for expected in (100, 400)] == [True, True], printed
        assert not re.search(r"\bsteps?\b", printed)
    page = (tmp_path / "page" / "report.html").read_text(encoding="utf8")
    assert not re.search(r"[^.]*\bsteps?\b", re.sub(r"<(script|style|svg).*?</\1>|<[^>]*>", " ", page, flags=re.DOTALL))


def test_of_several_seeds_what_recurs_is_said_in_words_and_as_data(one_onset: pd.DataFrame, tmp_path: Path) -> None:
    seeds = [str(tmp_path / name) for name in ("a", "b")]
    for seed in seeds:
        path = Path(seed, TABLE)
        path.parent.mkdir(parents=True)
        one_onset.assign(run=Path(seed).name).to_parquet(path)
    code, printed = call("stages", *seeds)
    assert code == 0
    assert printed.startswith("a\nOne transition was found. ")
    assert "over 2 seeds:\nL0H0 attends more to the previous token: in 2 of 2 seeds, at step " in printed
    data = json.loads(call("stages", *seeds, "--json")[1])
    assert [seed["run"] for seed in data["seeds"]] == ["a", "b"]
    [event] = data["over_seeds"]["events"]
    assert event["seeds"] == 2
    assert data["over_seeds"]["catalogue"][event["event"]]["words"] == "L0H0 attends more to the previous token"


@pytest.mark.usefixtures("undrawn")
def test_a_file_of_curves_has_stages_and_a_report_and_is_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    steps = range(0, 2000, 50)
    log = pd.DataFrame({"step": steps, "accuracy": [0.1 + 0.8 * (step > 900) + step / 1e6 for step in steps]})
    log.to_csv("mine.csv", index=False)
    code, printed = call("stages", "mine.csv")
    assert (code, "accuracy rises (0.10 -> 0.90)" in printed) == (0, True)
    code, printed = call("report", "mine.csv", "--out", "page")
    assert code == 0
    answer, place = printed.splitlines()
    assert answer.startswith("One transition was found. Between steps 900 and 950 (one gap: ")
    assert place == "report: page/report.html"
    log.rename(columns={"step": "round"}).to_csv("rounds.csv", index=False)
    code, printed = call("stages", "rounds.csv")
    assert (code, "no column of steps (`steps`, or --step-column, names it); there are round, accuracy" in printed) == (
        2,
        True,
    )
    for verb, expected in (("stages", "accuracy rises (0.10 -> 0.90)"), ("report", "report.html")):
        code, printed = call(verb, "rounds.csv", "--step-column", "round")
        assert (code, expected in printed) == (0, True)
    code, printed = call("stages", "page", "--step-column", "epoch")
    assert (code, "--step-column names a column of a file of logged curves; page holds none" in printed) == (2, True)
    code, printed = call("measure", "mine.csv")
    assert (code, "mine.csv holds curves and no checkpoints: `stagewise report mine.csv` shows them" in printed) == (
        2,
        True,
    )


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_a_file_of_curves_of_several_seeds_has_what_recurs_and_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    steps = range(0, 2000, 50)
    log = pd.DataFrame({"step": steps, "accuracy": [0.1 + 0.8 * (step > 900) + step / 1e6 for step in steps]})
    seeds = pd.concat([log.assign(seed=seed, accuracy=log["accuracy"].shift(seed).bfill()) for seed in range(3)])
    seeds.to_csv("seeds.csv", index=False)
    code, printed = call("stages", "seeds.csv")
    assert (code, "accuracy rises: in 3 of 3 seeds" in printed) == (0, True)
    code, printed = call("report", "seeds.csv", "--out", "seeds")
    assert (code, printed.splitlines()[-1]) == (0, "report: seeds/report.html")


def test_stages_are_printed_in_words_or_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    steps = np.arange(0, 100, 10)
    table = pd.DataFrame({"step": steps, "value": 1.0, "run": "mine", "probe": "Loss", "quantity": "cross_entropy"})
    stages = find_stages(table)
    show(stages, as_json=False)
    assert capsys.readouterr().out == f"{stages}\n"
    show(stages, as_json=True)
    data = json.loads(capsys.readouterr().out)
    assert (data["run"], data["table"][0]["start"], data["table"][0]["end"]) == ("mine", 0, 90)
    show(None, as_json=True, run="other")
    empty = json.loads(capsys.readouterr().out)
    frames: dict[str, list[object]] = {name: [] for name in (*FRAMES, "words")}
    assert empty == {"run": "other", "probe_batch": None, **frames}


def test_a_cause_that_a_person_names_stands_beside_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    steps = np.arange(0, 3000, 50)
    rise = 0.1 + 0.8 / (1 + np.exp(-(steps - 1000) / 20))
    noise = 0.003 * np.random.default_rng(0).standard_normal(len(steps))
    pd.DataFrame({"step": steps, "accuracy": rise + noise}).to_csv("log.csv", index=False)
    code, printed = call("stages", "log.csv", "--cause", "1000=a larger batch", "--cause", "0-100=a warm-up")
    assert (code, "a larger batch" in printed) == (0, True)
    assert "a larger batch" in call("stages", "log.csv")[1]  # it stays beside the table
    code, printed = call("stages", "log.csv", "--cause", "soon", "--json")
    assert (code, "--cause takes STEP=NAME or FIRST-LAST=NAME" in printed) == (2, True)
