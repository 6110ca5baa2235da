"""What a remote series costs is told before its weights are downloaded, and much of it needs a yes."""

import importlib
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from stagewise.analysis import analyse
from stagewise.checkpoints import hub as hubs
from stagewise.checkpoints.run_folder import TABLE, table_file
from stagewise.checkpoints.series import folder_of, open_series
from stagewise.checkpoints.sources import Source
from stagewise.cli._sources import measured_folder
from stagewise.cli.app import app
from stagewise.probes import Loss
from tests.checkpoints.test_formats import adapter_of

WEIGHTS = "model.safetensors"
STEPS = (0, 10, 20, 30, 40)


@pytest.fixture
def hub(
    local_hub: Callable[..., Any],
    saved: Callable[..., dict[str, bytes]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Any:
    served = local_hub({f"step{step}": saved("GPT2", seed) for seed, step in enumerate(STEPS)})
    here = partial(hubs.Hub, endpoint=served.endpoint, cache=tmp_path / "cache")
    importlib.import_module("stagewise.checkpoints._hub_revisions")  # whose annotations name the class itself
    monkeypatch.setattr("stagewise.checkpoints.hub.Hub", here)
    monkeypatch.setattr("stagewise.probes.default_probes.default_probes", lambda *_: [Loss()])
    return served


def call(tmp_path: Path, *arguments: str, answer: str = "") -> tuple[int, str]:
    places = () if arguments[0] == "audit" else ("--out", str(tmp_path / "out"), "--quiet")
    result = CliRunner().invoke(app, [*arguments, "owner/model", *places], input=answer)
    return result.exit_code, " ".join(result.output.split())


def downloaded(hub: Any) -> set[str]:
    return {asked.split()[1].split("/")[0] for asked in hub.asked if asked.startswith("GET") and WEIGHTS in asked}


@pytest.mark.parametrize("verb", [["report"], ["measure"], ["audit", "--weights"]])
def test_much_is_refused_in_a_script_and_no_weights_are_downloaded(
    verb: list[str], hub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stagewise.cli._sources.MUCH_BYTES", 10**5)
    status, printed = call(tmp_path, *verb)
    size = sum(len(files[WEIGHTS]) for files in hub.files.values())
    assert status == 2
    assert f"owner/model: 5 checkpoints, {size / 1e9:.2f} GB to download" in printed
    assert "--yes starts it; --checkpoints 20" in printed
    assert downloaded(hub) == set()
    assert not (tmp_path / "out").exists()


def test_a_choice_is_measured_alone_and_what_is_cached_costs_nothing(hub: Any, tmp_path: Path) -> None:
    status, printed = call(tmp_path, "measure", "--checkpoints", "3")
    assert status == 0, printed
    assert "owner/model: 3 checkpoints, 0.00 GB to download" in printed
    assert downloaded(hub) == {"step0", "step10", "step40"}
    assert list(table_file(tmp_path / "out").read()["step"].unique()) == [0, 10, 40]
    entries = open_series("owner/model").source
    assert entries is not None
    assert [entry.download() > 0 for entry in entries.entries] == [False, False, True, True, False]


def test_with_a_yes_it_starts(hub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stagewise.cli._sources.MUCH_BYTES", 10**5)
    status, printed = call(tmp_path, "measure", "--yes", "--steps", "0:20:10")
    assert status == 0, printed
    assert downloaded(hub) == {"step0", "step10", "step20"}


def test_a_person_is_asked(hub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stagewise.cli._sources.MUCH_BYTES", 0)
    monkeypatch.setattr("stagewise.cli._sources._person_is_there", lambda: True)
    status, printed = call(tmp_path, "measure", answer="n\n")
    assert (status, "Go on?" in printed, downloaded(hub)) == (1, True, set())
    status, printed = call(tmp_path, "measure", answer="y\n")
    assert (status, len(downloaded(hub))) == (0, 5)


def test_a_choice_of_both_kinds_is_refused(hub: Any, tmp_path: Path) -> None:
    status, printed = call(tmp_path, "measure", "--checkpoints", "3", "--steps", "0:20:10")
    assert (status, "give one of the two" in printed) == (2, True)


def test_a_cache_and_its_size_are_chosen(hub: Any, tmp_path: Path) -> None:
    place, size = tmp_path / "elsewhere", len(hub.files["step0"][WEIGHTS])
    status, printed = call(tmp_path, "measure", "--cache", str(place), "--cache-size", f"{2 * size // 1000}KB")
    assert status == 0, printed
    held = sum(path.stat().st_size for path in place.rglob("*") if path.is_file() and not path.is_symlink())
    assert size < held < 3.2 * size


def test_in_python_too(hub: Any, tmp_path: Path) -> None:
    found = analyse("owner/model", tmp_path / "out", steps=3, progress=False)
    assert found.series.steps == (0, 10, 40)
    with pytest.raises(ValueError, match="is open: give steps to `open_series`"):
        analyse(found.series, tmp_path / "out", steps=2)


def test_checkpoints_are_measured_where_report_writes_their_table(
    small_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    monkeypatch.chdir(tmp_path)
    GPT2LMHeadModel(GPT2Config(vocab_size=8, n_embd=8, n_layer=1, n_head=1)).save_pretrained("mine/checkpoint-0")
    assert measured_folder("mine") == Path("mine")
    table = folder_of(open_series("mine")) / TABLE
    table.parent.mkdir(parents=True)
    table.touch()
    assert measured_folder("mine") == table.parents[1]
    assert measured_folder(str(small_folder)) == small_folder
    Path("mine/checkpoint-0/config.json").unlink()  # what the models are was said on the command line
    assert measured_folder("mine") == table.parents[1]


def test_the_table_of_a_behaviour_is_found_and_of_several_the_last_one(
    small_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run = Path(shutil.copytree(small_folder, "run[1]"))
    (run / TABLE).unlink(missing_ok=True)
    assert measured_folder("run[1]") == run
    for number, pairs in enumerate(("few-shot", "ioi")):
        table = folder_of(open_series(run), pairs) / TABLE
        table.parent.mkdir(parents=True)
        table.touch()
        os.utime(table, (number, number))
        assert measured_folder("run[1]") == table.parents[1]
    assert "-on-ioi is the last measured of runs/analysis-run[1]" in capsys.readouterr().err
    (run / TABLE).parent.mkdir(exist_ok=True)
    (run / TABLE).touch()
    assert measured_folder("run[1]") == run


def test_a_measured_repository_is_found_by_its_name_without_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert measured_folder("owner/model") == Path("owner/model")
    table = folder_of(Source("owner/model", (), identity="owner/model")) / TABLE
    table.parent.mkdir(parents=True)
    table.touch()
    assert measured_folder("owner/model") == Path("runs", "analysis-owner--model")


def test_what_is_not_measured_is_said_with_a_command_that_a_shell_understands(tmp_path: Path) -> None:
    (tmp_path / "my run").mkdir()
    with pytest.raises(FileNotFoundError, match=f"with `stagewise measure '{tmp_path}/my run'`"):
        table_file(tmp_path / "my run")
    with pytest.raises(FileNotFoundError, match=r"there is no folder nowhere here\."):
        table_file(Path("nowhere"))


def test_seeds_that_are_measured_are_taken_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[object] = []

    def report_seeds(*given: object) -> SimpleNamespace:
        taken.append(given)
        return SimpleNamespace(report="page")

    monkeypatch.setattr("stagewise.reporting.report_seeds", report_seeds)
    for name in ("a", "b"):
        (tmp_path / name / TABLE).parent.mkdir(parents=True)
        (tmp_path / name / TABLE).touch()
    seeds = [str(tmp_path / "a"), str(tmp_path / "b")]
    result = CliRunner().invoke(app, ["report", *seeds])
    assert result.exit_code == 0, result.output
    assert taken == [([tmp_path / "a", tmp_path / "b"], Path("runs", "a-and-1-more"), "steps", None)]
    # Other data are given: the sources are opened, and hold no checkpoints.
    refused = CliRunner().invoke(app, ["report", *seeds, "--tokens", "mine.npy"])
    assert refused.exit_code == 2
    assert "is not a run folder: there is no run.json in it" in " ".join(refused.output.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("measure --device nowhere", "torch sees no device"),
        ("measure --dtype float16", "dtype is one of float32, bfloat16, got 'float16'"),
        ("measure --probe QKOffset --only Nothing", "none of the default probes"),
        ("measure --task recall", "the batch holds token"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_a_command_that_is_refused_leaves_the_folder_to_other_sources(
    arguments: str, message: str, checkpoints: Path, tmp_path: Path
) -> None:
    words = [*arguments.split(), str(checkpoints), "--out", str(tmp_path / "out")]
    printed = CliRunner().invoke(app, words).output
    assert message in " ".join(printed.split())
    assert [path for path in tmp_path.joinpath("out").rglob("*") if path.is_file()] == []


def test_names_are_read_by_the_expression_that_is_given_and_adapters_merged_onto_the_base(
    tmp_path: Path, hugging_face: Callable[..., Any]
) -> None:
    module = hugging_face("GPT2")
    module.save_pretrained(tmp_path / "base")
    for step in (100, 200, 400):
        adapter_of(module, tmp_path / "run" / f"x{step}y{step // 100}", fan_in_fan_out=True)
    unread = CliRunner().invoke(app, ["audit", str(tmp_path / "run")])
    assert unread.exit_code == 2
    assert "--parse" in unread.output
    options = ["--parse", r"x(?P<step>\d+)y", "--base", str(tmp_path / "base")]
    read = CliRunner().invoke(app, ["audit", str(tmp_path / "run"), *options])
    assert "3 checkpoints; compared: names, hashes, configs and weights" in read.output
    assert "100" in read.output
    assert "identical" in read.output
