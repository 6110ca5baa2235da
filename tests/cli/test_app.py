import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stagewise.checkpoints.run_folder import TABLE, read_table
from stagewise.cli.app import app

pytestmark = pytest.mark.usefixtures("few_sequences")

SHORT = ["--quiet", "--steps", "6", "--set", "plan.batch_size=8", "--set", "task.n_sequences=32"]


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.output


def test_help_costs_neither_torch_nor_transformer_lens() -> None:
    program = (
        "import sys, typer.testing, stagewise.cli.app as cli; "
        "result = typer.testing.CliRunner().invoke(cli.app, ['--help']); assert result.exit_code == 0; "
        "print(sorted({'torch', 'transformer_lens', 'pandas'} & set(sys.modules)))"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


def test_a_run_is_trained_measured_and_reported_verb_by_verb(tmp_path: Path) -> None:
    folder = str(tmp_path / "run")
    assert call("train", "markov", "--folder", folder, *SHORT)[0] == 0
    chosen = ["--without", "HeadAblation", "--probe", "AttentionFreezing", "--memory", "1MB"]
    assert call("measure", folder, "--quiet", *chosen)[0] == 0
    probes = set(read_table(tmp_path / "run")["probe"])
    assert {"AttentionFreezing", "RestrictedContextKL"} <= probes
    assert "HeadAblation" not in probes
    code, printed = call("stages", folder, "--json")
    assert code == 0
    assert json.loads(printed)["table"][0]["stage"] == 1
    assert call("report", folder)[0] == 0
    assert (tmp_path / "run" / "report.html").exists()


def test_a_config_of_the_users_own_takes_the_place_of_the_preset(tmp_path: Path) -> None:
    config = {"n_layers": 2, "d_model": 8, "d_head": 4, "n_ctx": 21, "d_vocab": 24, "attn_only": True}
    (tmp_path / "config.json").write_text(json.dumps(config))
    code, printed = call(
        "train", "markov", "--folder", str(tmp_path / "run"), "--config", str(tmp_path / "config.json"), *SHORT
    )
    assert code == 0
    assert "2 layers of 2 heads" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--preset", "huge"], "MarkovChain has no preset 'huge'; there are minimal, full"),
        (["--set", "task.spans=[2,0,2]"], "spans must be one positive number of lags a group, got (2, 0, 2)"),
        (["--set", "plan.speed=2"], "--set plan.speed: the recipe has no such field"),
        (["--set", "steps"], "--set takes key=value, got 'steps'"),
        (["--heads", "0"], "a model needs a layer and a head, got 1 layers of 0 heads"),
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


@pytest.mark.parametrize("verb", ["train", "run"])
def test_a_task_that_there_is_none_of_is_named_with_those_that_there_are(verb: str, tmp_path: Path) -> None:
    code, printed = call(verb, "marcov", "--folder", str(tmp_path / "run"))
    assert code == 2
    assert "there is no task 'marcov'; there are markov, recall," in printed
    assert "module:Class" in printed


@pytest.mark.parametrize(
    ("option", "name", "message"),
    [
        ("--probe", "Nonsense", "there is no probe 'Nonsense'; there are Accuracy,"),
        ("--probe", "ValueAlignment", "the probe ValueAlignment needs arguments"),
        ("--workers", "0", "a measurement needs at least one worker, got 0"),
        ("--memory", "much", "--memory takes a size with its unit"),
        ("--only", "Nonsense", "Nonsense is none of the default probes here; they are Loss,"),
    ],
)
def test_a_probe_that_cannot_be_run_is_named(option: str, name: str, message: str, tmp_path: Path) -> None:
    folder = str(tmp_path / "run")
    assert call("train", "markov", "--folder", folder, *SHORT)[0] == 0
    code, printed = call("measure", folder, option, name, "--quiet")
    assert (code, message in printed) == (2, True), printed


def test_a_run_that_was_not_measured_has_no_stages_yet(tmp_path: Path) -> None:
    code, printed = call("stages", str(tmp_path))
    assert code == 2
    assert "measure the run first" in printed


@pytest.fixture
def checkpoints(tmp_path: Path, saved: Callable[..., dict[str, bytes]]) -> Path:
    for seed, step in enumerate((0, 10, 20, 30)):
        folder = tmp_path / "mine" / f"checkpoint-{step}"
        folder.mkdir(parents=True)
        for name, content in saved("GPT2", seed).items():
            (folder / name).write_bytes(content)
    return tmp_path / "mine"


def test_an_audit_ends_with_status_1_where_something_is_wrong(checkpoints: Path) -> None:
    code, printed = call("audit", str(checkpoints))
    assert (code, "nothing is wrong" in printed) == (0, True)
    (checkpoints / "checkpoint-20" / "model.safetensors").write_bytes(b"")
    code, printed = call("audit", str(checkpoints), "--json")
    assert code == 1
    assert [found["kind"] for found in json.loads(printed)["findings"]] == ["damaged"]
    assert call("audit", str(checkpoints), "--no-weights")[0] == 0


def test_a_folder_of_checkpoints_is_measured_and_reported(checkpoints: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, printed = call("measure", str(checkpoints), "--out", str(out), "--quiet")
    assert code == 0, printed
    assert f"rows: {out / TABLE}" in printed
    code, printed = call("report", str(out))
    assert code == 0, printed
    assert printed.strip() == str(out / "report.html")
    assert call("stages", str(out))[0] == 0
    assert {path.name for path in checkpoints.iterdir()} == {f"checkpoint-{step}" for step in (0, 10, 20, 30)}


@pytest.mark.parametrize("verb", ["audit", "measure", "report"])
def test_a_source_that_is_none_is_a_line_and_writes_nothing(verb: str, tmp_path: Path) -> None:
    code, printed = call(verb, str(tmp_path / "nowhere"))
    assert code == 2
    assert "is not a run folder: there is no run.json in it" in printed
    assert not list(tmp_path.iterdir())
