"""Where what the command line names is measured."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from stagewise.analysis import folder_of
from stagewise.checkpoints.run_folder import TABLE, table_file
from stagewise.checkpoints.series import open_series
from stagewise.checkpoints.sources import Source
from stagewise.cli._sources import measured_folder
from stagewise.cli.app import app
from tests.checkpoints.test_formats import adapter_of


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

    monkeypatch.setattr("stagewise.reporting._seeds.report_seeds", report_seeds)
    for name in ("a", "b"):
        (tmp_path / name / TABLE).parent.mkdir(parents=True)
        (tmp_path / name / TABLE).touch()
    seeds = [str(tmp_path / "a"), str(tmp_path / "b")]
    assert CliRunner().invoke(app, ["report", *seeds]).exit_code == 0
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
        ("llc --device nowhere", "torch sees no device"),
        ("llc --heads", "take the whole model"),
        ("llc --checkpoints 1", "the first and the last one at least"),
        pytest.param("llc --dry-run", "updates", marks=pytest.mark.slow),
        ("trajectory --device nowhere", "torch sees no device"),
        ("trajectory --task recall", "the batch holds token"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_a_command_that_is_refused_leaves_the_folder_to_other_sources(
    arguments: str, message: str, checkpoints: Path, tmp_path: Path
) -> None:
    if arguments.startswith("llc"):
        pytest.importorskip("devinterp")
    verb, *options = arguments.split()
    printed = CliRunner().invoke(app, [verb, str(checkpoints), "--out", str(tmp_path / "out"), *options]).output
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
