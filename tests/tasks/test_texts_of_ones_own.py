"""A text of one's own as the probe batch, on the command line and in Python."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tokenizers import Tokenizer, processors
from typer.testing import CliRunner

import stagewise
from stagewise.checkpoints.run_folder import TABLE
from stagewise.cli.app import app
from stagewise.measurement.engine import measure
from stagewise.probes import AttentionTo, Loss
from stagewise.tasks.text import text_task
from stagewise.tasks.tokens import own_task
from stagewise.text._tokenizer import vocabulary_size

SENTENCE = "the cat saw the dog and the dog saw the cat again while a bird sang "


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "mine.txt"
    path.write_text(SENTENCE * 40, encoding="utf8")
    return path


@pytest.fixture
def checkpoints(tmp_path: Path, saved: Callable[..., dict[str, bytes]]) -> Path:
    for seed, step in enumerate((0, 10)):
        folder = tmp_path / "mine" / f"checkpoint-{step}"
        folder.mkdir(parents=True)
        for name, content in saved("GPT2", seed).items():
            (folder / name).write_bytes(content)
    return tmp_path / "mine"


def call(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.output


@pytest.mark.usefixtures("undrawn")
def test_a_text_is_measured_from_the_command_line(
    checkpoints: Path, text: Path, tokenizer: str, tmp_path: Path
) -> None:
    shutil.copy(tokenizer, checkpoints / "checkpoint-10")
    code, printed = call(
        "measure",
        checkpoints,
        "--text",
        text,
        "--out",
        tmp_path / "out",
        "--quiet",
        "--only",
        "Loss",
        "--only",
        "AttentionTo",
    )
    assert code == 0, printed
    table = pd.read_parquet(tmp_path / "out" / TABLE)
    relations = {"previous token", "duplicate token", "induction", "first token", "self"}
    for quantity in ("mass", "along"):
        assert set(table.loc[table["quantity"] == quantity, "relation"].dropna()) == relations
    text.unlink()  # it is not needed any more
    code, printed = call("report", tmp_path / "out")
    assert code == 0, printed


@pytest.mark.usefixtures("undrawn")
def test_the_tokenizer_may_be_named(checkpoints: Path, text: Path, tokenizer: str, tmp_path: Path) -> None:
    task = text_task(stagewise.open_series(checkpoints), text, tokenizer)
    assert (task.length, task.bos, task.tokenizer) == (32, None, tokenizer)
    probes = [Loss(), AttentionTo()]
    found = stagewise.analyse(
        stagewise.open_series(checkpoints),
        tmp_path / "out",
        text=text,
        tokenizer=tokenizer,
        probes=probes,
        progress=False,
    )
    assert set(found.table["probe"]) == {"Loss", "AttentionTo"}


@pytest.fixture
def beginning(tokenizer: str, tmp_path: Path) -> str:
    """The same words, by a tokenizer that puts "bird" before every text."""
    made = Tokenizer.from_file(tokenizer)
    made.post_processor = processors.TemplateProcessing(single="bird $A", special_tokens=[("bird", 9)])
    made.save(str(tmp_path / "beginning.json"))
    return str(tmp_path / "beginning.json")


def test_each_window_begins_as_the_tokenizer_has_it_whatever_the_config_says(
    checkpoints: Path, text: Path, tokenizer: str, beginning: str, capsys: pytest.CaptureFixture[str]
) -> None:
    series = stagewise.open_series(checkpoints)
    assert series.architecture.bos == 0
    batch = text_task(series, text, tokenizer).probe_batch(4, seed=0)
    assert not (batch.tokens == 0).any()
    assert capsys.readouterr().err == ""
    batch = text_task(series, text, beginning).probe_batch(4, seed=0)
    assert (batch.tokens[:, 0] == 9).all()
    assert "each window begins with 'bird', token 9" in capsys.readouterr().err


@pytest.mark.parametrize(("beside", "bos"), [(None, 0), ("tokenizer", None), ("beginning", 9)])
def test_a_file_of_tokens_has_the_first_token_of_the_tokenizer_beside_the_checkpoints(
    checkpoints: Path, tmp_path: Path, beside: str | None, bos: int | None, request: pytest.FixtureRequest
) -> None:
    np.save(tmp_path / "tokens.npy", np.tile(np.arange(1, 9), (4, 2)))
    if beside is not None:
        shutil.copy(request.getfixturevalue(beside), checkpoints / "tokenizer.json")
    task = own_task(stagewise.open_series(checkpoints), tmp_path / "tokens.npy")
    assert task is not None
    assert task.bos == bos


def test_a_revision_of_a_repository_may_be_named(
    local_hub: Callable[..., Any], tokenizer: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hub = local_hub({"main": {"other.txt": b""}, "step0": {"tokenizer.json": Path(tokenizer).read_bytes()}})
    template = hub.endpoint + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert vocabulary_size("owner/model@step0") == 11
    with pytest.raises(FileNotFoundError, match=r"the hub gives no tokenizer\.json"):
        vocabulary_size("owner/model")


def test_the_hubs_own_tokenizer_is_taken(
    local_hub: Callable[..., Any], saved: Callable[..., dict[str, bytes]], text: Path, tokenizer: str, tmp_path: Path
) -> None:
    files = saved("GPT2", 0)
    hub = local_hub({"main": {"tokenizer.json": Path(tokenizer).read_bytes()}, "step0": files})
    series = stagewise.open_series("owner/model", hub={"cache": tmp_path, "endpoint": hub.endpoint})
    assert text_task(series, text).d_vocab == 11
    assert not any("safetensors" in asked for asked in hub.asked)


def test_without_a_tokenizer_it_says_what_was_looked_for(checkpoints: Path, text: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, printed = call("measure", checkpoints, "--text", text, "--out", out)
    assert code == 2
    assert "no tokenizer: there is no tokenizer.json beside the checkpoints of mine. Give the tokenizer that" in printed
    code, printed = call("measure", checkpoints, "--text", text, "--tokenizer", tmp_path, "--out", out)
    assert code == 2
    assert f"no tokenizer: {tmp_path} holds no tokenizer.json. Give a tokenizer.json, a folder" in printed
    code, printed = call("measure", checkpoints, "--tokenizer", tmp_path, "--out", out)
    assert (code, "was given without a text or pairs: give one too" in printed) == (2, True)
    assert not out.exists()


def test_another_models_tokenizer_is_refused(text: Path, tokenizer: str, hugging_face: Callable[..., Any]) -> None:
    series = stagewise.open_series([(0, hugging_face("GPT2", vocab_size=9))])
    with pytest.raises(ValueError, match=r"gives token 10 for this text, and the models of .* have 9 tokens, counted"):
        text_task(series, text, tokenizer)
    wide = text_task(stagewise.open_series([(0, hugging_face("GPT2"))]), text, tokenizer)
    with pytest.raises(ValueError, match=r"the batch holds token (9|10), and the series .* has 9 tokens"):
        measure(series, [Loss()], wide.probe_batch(4, seed=0), progress=False)


def test_a_batch_longer_than_the_models_read_is_refused(
    text: Path, tokenizer: str, hugging_face: Callable[..., Any]
) -> None:
    batch = text_task(stagewise.open_series([(0, hugging_face("GPT2"))]), text, tokenizer).probe_batch(4, seed=0)
    short = stagewise.open_series([(0, hugging_face("GPT2", n_positions=16))])
    with pytest.raises(ValueError, match=r"the batch has 32 positions, and the series .* has 16: shorten it"):
        measure(short, [Loss()], batch, progress=False)
