"""`stagewise train`, `measure` and `report`: what they print, refuse, write and leave alone."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.checkpoints._table_file import TableFile
from stagewise.checkpoints.run_folder import RUN, TABLE, read_run, read_table
from stagewise.cli._names import TASKS
from stagewise.cli.app import app

pytestmark = pytest.mark.usefixtures("few_sequences", "undrawn", "unchecked")

SHORT = ["--quiet", "--steps", "6", "--set", "plan.batch_size=8", "--set", "task.n_sequences=32"]


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.output


HEAVY = {"torch", "sklearn", "transformers", "transformer_lens"}

FROM_TABLES = """
import json, sys
from pathlib import Path
from typer.testing import CliRunner
from stagewise.cli.app import app

def call(*arguments):
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.output

call("--help")
after_help = sorted(sys.modules)
stages = json.loads(call("stages", sys.argv[1], "--json"))
from stagewise.reporting import _figure as figure
drawn = figure.svg
figure.svg = lambda axes, name: drawn(axes, name) if name == "stages" else "<svg></svg>"  # one is enough
call("report", sys.argv[1])
from stagewise import plot
from stagewise.checkpoints.run_folder import read_table
plot.loss_curve(read_table(Path(sys.argv[1])))
print(json.dumps([after_help, sorted(sys.modules), stages]))
"""


def test_a_run_is_trained_measured_and_reported_and_only_the_first_two_import_torch(tmp_path: Path) -> None:
    folder = str(tmp_path / "run")
    tiny = [word for field in ("d_vocab=4", "spans=[1,1]", "length=4") for word in ("--set", f"task.{field}")]
    assert call("train", "markov", "--folder", folder, *SHORT, *tiny)[0] == 0
    freezing = "stagewise.papers.scan_and_snap.attention_freezing:AttentionFreezing"
    chosen = ["--without", "HeadAblation", "--probe", freezing, "--memory", "1MB"]
    assert call("measure", folder, "--quiet", *chosen)[0] == 0
    probes = set(read_table(tmp_path / "run")["probe"])
    assert {"AttentionFreezing", "RestrictedContextKL"} <= probes
    assert "HeadAblation" not in probes
    program = [sys.executable, "-c", FROM_TABLES, folder]
    printed = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    after_help, after_all, stages = json.loads(printed)
    assert (HEAVY | {"pandas"}) & set(after_help) == set()
    assert HEAVY & set(after_all) == set()
    assert stages["table"][0]["stage"] == 1
    assert (tmp_path / "run" / "report.html").exists()


def test_a_config_of_the_users_own_takes_the_place_of_the_preset(tmp_path: Path) -> None:
    config = {"n_layers": 2, "d_model": 8, "d_head": 4, "n_ctx": 21, "d_vocab": 24, "attn_only": True}
    (tmp_path / "config.json").write_text(json.dumps(config))
    changes = ["--set", f"architecture=@{tmp_path}/config.json", *SHORT]
    code, printed = call("train", "markov", "--folder", str(tmp_path / "run"), *changes)
    assert code == 0
    assert "2 layers of 2 heads" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--preset", "huge"], "MarkovChain has no preset 'huge'; there are minimal, full"),
        (["--set", "task.spans=[2,0,2]"], "spans must be one positive number of lags a group, got (2, 0, 2)"),
        (["--set", "plan.speed=2"], "--set plan.speed: the recipe has no such field"),
        (["--set", "steps"], "--set takes key=value, got 'steps'"),
        (["--heads", "0"], "Invalid value for '--heads'"),
        (["--heads", "-1"], "Invalid value for '--heads'"),
    ],
)
def test_bad_input_is_one_line_that_says_what_is_possible(arguments: list[str], message: str, tmp_path: Path) -> None:
    code, printed = call("train", "markov", "--folder", str(tmp_path / "run"), *arguments)
    assert code == 2
    assert message in printed
    assert not (tmp_path / "run").exists()


def test_a_folder_of_another_recipe_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert call("train", "markov", "--folder", str(folder), *SHORT)[0] == 0
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    code, printed = call("train", "markov", "--folder", str(folder), *SHORT, "--seed", "1")
    assert code == 2
    assert "holds a run of another recipe" in printed
    assert "task.seed: 1 requested, 0 on disk" in printed
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_run_folder_is_gone_on_with_by_its_own_recipe(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert call("train", "markov", "--folder", str(folder), *SHORT)[0] == 0
    (last,) = folder.rglob("step-00000006.safetensors")
    before = last.read_bytes()
    last.unlink()
    assert call("train", str(folder), "--quiet")[0] == 0
    assert last.read_bytes() == before
    code, printed = call("train", str(folder), "--heads", "2")
    assert (code, "--heads is of a preset" in printed) == (2, True)


def test_a_task_is_trained_although_a_run_folder_has_its_name(
    small_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(small_folder, "markov")
    code, printed = call("train", "markov", *SHORT)
    assert (code, "that one is ./markov" in printed) == (0, True)
    assert read_run(tmp_path / "runs" / "markov")["recipe"]["plan"]["steps"] == 6
    code, printed = call("train", "./markov", "--quiet")
    assert (code, "CheckpointSeries('markov': 4 checkpoints" in printed) == (0, True)


@pytest.mark.parametrize("verb", ["train", "run"])
def test_a_task_that_there_is_none_of_is_named_with_those_that_there_are(verb: str, tmp_path: Path) -> None:
    code, printed = call(verb, "marcov", "--folder", str(tmp_path / "run"))
    assert code == 2
    assert "there is no task 'marcov' (did you mean markov?); there are markov, recall," in printed
    assert "module:Class" in printed


@pytest.mark.parametrize(
    ("option", "name", "message"),
    [
        ("--probe", "Nonsense", "there is no probe 'Nonsense'; there are Accuracy,"),
        ("--probe", "ValueAlignment", "the probe ValueAlignment needs arguments"),
        ("--workers", "0", "give at least one worker, got 0"),
        ("--memory", "much", "--memory takes a size with its unit"),
        ("--only", "Nonsense", "Nonsense is none of the default probes here; they are Loss,"),
    ],
)
def test_a_probe_that_cannot_be_run_is_named(option: str, name: str, message: str, tmp_path: Path) -> None:
    folder = str(tmp_path / "run")
    assert call("train", "markov", "--folder", folder, *SHORT)[0] == 0
    code, printed = call("measure", folder, option, name, "--quiet")
    assert (code, message in printed) == (2, True), printed


@pytest.mark.slow
def test_a_folder_of_checkpoints_is_measured_and_reported(checkpoints: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, printed = call(
        "measure", str(checkpoints), "--out", str(out), "--quiet", "--only", "Loss", "--only", "AttentionTo"
    )
    assert code == 0, printed
    assert f"rows: {out / TABLE}" in printed
    code, printed = call("report", str(out))
    assert code == 0, printed
    assert printed.splitlines()[-1] == f"report: {out / 'report.html'}"
    code, printed = call("report", str(out), "--only", "Nonsense")
    assert code == 0, printed
    assert f"{out} was measured before, and all of that is shown: --only and --without choose for" in printed
    assert call("stages", str(out))[0] == 0
    assert {path.name for path in checkpoints.iterdir()} == {f"checkpoint-{step}" for step in (0, 10, 20, 30)}


@pytest.mark.parametrize("verb", ["audit", "measure", "report"])
def test_a_source_that_is_none_is_a_line_and_writes_nothing(verb: str, tmp_path: Path) -> None:
    code, printed = call(verb, str(tmp_path / "nowhere"))
    assert code == 2
    assert "is not a run folder: there is no run.json in it" in printed
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", [["measure"], ["report"]])
def test_a_device_that_is_not_there_is_refused(command: list[str], checkpoints: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    code, printed = call(*command, str(checkpoints), "--device", "nowhere", "--out", out)
    assert (code, 'torch sees no device "nowhere" here' in printed) == (2, True), printed


def test_a_measurement_in_bfloat16_says_so_in_table_and_report(checkpoints: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    code, printed = call("measure", str(checkpoints), "--dtype", "bfloat16", "--only", "Loss", "--out", out, "--quiet")
    assert (code, TableFile(tmp_path / "out" / TABLE).provenance["dtype"]) == (0, "bfloat16"), printed
    assert call("report", out)[0] == 0
    settings = re.findall(
        r"<td[^>]*>measured[^<]*dtype</td>\s*<td[^>]*>(\w+)</td>", (tmp_path / "out/report.html").read_text()
    )
    assert settings == ["bfloat16"]


def test_a_run_is_made_again_from_its_record_alone(small_folder: Path, tmp_path: Path) -> None:
    record = shutil.copy(small_folder / RUN, tmp_path / "of-a-colleague.json")
    code, printed = call("train", str(record), "--folder", str(tmp_path / "again"), "--quiet")
    assert (code, "4 checkpoints" in printed) == (0, True)
    for path in (small_folder / "checkpoints").glob("*.safetensors"):
        assert (tmp_path / "again" / "checkpoints" / path.name).read_bytes() == path.read_bytes()
    assert json.loads((tmp_path / "again" / RUN).read_text())["recipe"] == read_run(small_folder)["recipe"]


def test_a_record_that_this_version_cannot_read_says_which_one_can(small_folder: Path, tmp_path: Path) -> None:
    record = read_run(small_folder)
    record["recipe"]["plan"]["patience"] = 3
    (tmp_path / "run.json").write_text(json.dumps({**record, "versions": {"stagewise": "0.9"}}))
    code, printed = call("train", str(tmp_path / "run.json"), "--folder", str(tmp_path / "again"))
    assert (code, "was written by stagewise 0.9" in printed, "'patience'" in printed) == (2, True, True)


def test_files_without_a_config_are_measured_with_the_one_that_is_given(tmp_path: Path) -> None:
    sizes = {"n_layers": 1, "d_model": 8, "d_head": 4, "n_ctx": 6, "d_vocab": 5, "act_fn": "relu"}
    (tmp_path / "mine.json").write_text(json.dumps(sizes))
    (tmp_path / "files").mkdir()
    for step in (0, 10):
        torch.save(models.weights(models.build(Architecture(sizes), step)), tmp_path / "files" / f"m{step}.pt")
    arguments = ("measure", str(tmp_path / "files"), "--out", str(tmp_path / "out"), "--only", "Loss", "--quiet")
    code, printed = call(*arguments)
    assert (code, "and do not show act_fn (the MLPs' activation" in printed) == (2, True)
    assert call(*arguments, "--architecture", str(tmp_path / "mine.json"))[0] == 0
    assert set(read_table(tmp_path / "out")["step"]) == {0, 10}


def test_one_of_several_branches_is_chosen_by_its_name(tmp_path: Path) -> None:
    sizes = {"n_layers": 1, "d_model": 8, "d_head": 4, "n_ctx": 6, "d_vocab": 5, "attn_only": True}
    (tmp_path / "config.json").write_text(json.dumps(sizes))
    for step, name in enumerate(("stage1-step1", "stage1-step9", "stage2-step1")):
        torch.save(models.weights(models.build(Architecture(sizes), step)), tmp_path / f"{name}.pt")
    arguments = ["measure", str(tmp_path), "--quiet", "--only", "Loss", "--out", str(tmp_path / "out")]
    code, words = call(*arguments)
    assert (code, "give `branch` (--branch), one of 'stage1', 'stage2'" in words) == (2, True)
    assert call(*arguments, "--branch", "stage1")[0] == 0
    assert set(read_table(tmp_path / "out")["step"]) == {1, 9}


PAPERS = ("incremental", "scan-and-snap", "emergence", "wikitext-baseline")


def call_of_run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.output


def test_a_figure_that_there_is_none_of_is_named_with_those_that_there_are(tmp_path: Path) -> None:
    code, printed = call_of_run("run", "incremental", "--figure", "99", "--folder", str(tmp_path / "none"), "--quiet")
    assert code == 2
    assert "there is no figure 99 here; there are 1, 2, 3, 4L, 4R, 5, 6, 7, 8, 9, 11, 12" in printed
    assert not (tmp_path / "none").exists()


def test_papers_and_tasks_are_listed() -> None:
    code, printed = call_of_run("run", "--help")
    assert code == 0
    assert all(name in printed for name in (*PAPERS, *TASKS))


@pytest.mark.parametrize("name", [*PAPERS, "markov", "mine:MyTask"])
def test_a_name_that_is_no_paper_has_the_options_of_a_task(name: str) -> None:
    code, printed = call_of_run("run", name, "--help")
    assert code == 0
    assert ("--preset" in printed) is (name not in PAPERS)
    assert re.search(rf"Usage: \S+ run {name} \[OPTIONS\] *\n", printed)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["recall", "--preset", "huge"], "no preset 'huge'"),
        (["incremental", "--figure", "1", "--setting", "huge"], "in setting 'huge'"),
    ],
)
def test_what_cannot_be_run_is_refused_before_a_folder_is_made(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, letters: str
) -> None:
    monkeypatch.setenv("STAGEWISE_WIKITEXT", letters)
    code, printed = call_of_run("run", *arguments, "--folder", str(tmp_path / "run"), "--quiet")
    assert (code, message in printed) == (2, True), printed
    assert not (tmp_path / "run").exists()


def call_of_audit(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.output


def test_an_audit_ends_with_status_1_where_something_is_wrong(checkpoints: Path) -> None:
    code, printed = call_of_audit("audit", str(checkpoints))
    assert (code, "nothing is wrong" in printed) == (0, True)
    (checkpoints / "checkpoint-20" / "model.safetensors").write_bytes(b"")
    code, printed = call_of_audit("audit", str(checkpoints), "--json")
    assert code == 1
    assert [found["kind"] for found in json.loads(printed)["findings"]] == ["damaged"]
    assert call_of_audit("audit", str(checkpoints), "--no-weights")[0] == 0


def test_a_run_is_measured_in_its_own_folder_alone(small_folder: Path, tmp_path: Path) -> None:
    run = shutil.copytree(small_folder, tmp_path / "run")
    code, printed = call("measure", str(run), "--only", "Loss", "--out", str(tmp_path / "out"), "--quiet")
    assert (code, "--out is not used: the tables of a run lie in its own folder" in " ".join(printed.split())) == (
        0,
        True,
    )
    assert (run / "tables" / "measurements.parquet").exists()
    assert not (tmp_path / "out").exists()
