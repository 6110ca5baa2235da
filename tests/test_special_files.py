"""A pipe in the place of a file, as a stranger may leave one, is never waited for: the file is named, or left aside."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch.utils.tensorboard import SummaryWriter
from transformers import GPT2Config, GPT2LMHeadModel
from typer.testing import CliRunner

from stagewise import read_log
from stagewise.analysis import measure_run
from stagewise.checkpoints._digest import check_file
from stagewise.checkpoints._table_file import read_json
from stagewise.checkpoints.audit import audit
from stagewise.checkpoints.series import open_series
from stagewise.checkpoints.token_files import read_sequences
from stagewise.cli.app import app
from stagewise.probes import AttentionTo, Loss
from stagewise.recipe import Recipe
from stagewise.training import train

pytestmark = pytest.mark.usefixtures("few_sequences", "unchecked", "undrawn")

LONGEST = 120
"""Seconds after which something waits for ever."""


@pytest.fixture(autouse=True)
def limited() -> Iterator[None]:
    def late(*_: Any) -> None:
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(LONGEST)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def measured(small_recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("measured") / "run"
    train(small_recipe, folder, progress=False)
    measure_run(small_recipe, folder, probes=[Loss(), AttentionTo()], sequences=16, progress=False)
    return folder


def piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


FILES = (
    *("run.json", "metrics.parquet", "resume.pt", "SHA256SUMS", "tables/measurements.parquet", "tables/batch.json"),
    *("checkpoints/step-00000000.safetensors", "checkpoints/SHA256SUMS", "tables/SHA256SUMS"),
)


@pytest.mark.one_of(3)
@pytest.mark.parametrize("name", FILES)
def test_a_pipe_in_a_run_is_not_waited_for(name: str, measured: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(measured, tmp_path / "run"))
    piped(folder / name)
    for words in (["audit"], ["stages"], ["measure", "--sequences", "16", "--only", "Loss", "--quiet"]):
        result = CliRunner().invoke(app, [*words, str(folder)])
        assert result.exception is None or isinstance(result.exception, SystemExit), (words, result.exc_info)


def save_sharded(folder: Path) -> None:
    from torch.distributed.checkpoint.state_dict_saver import save

    save({"w": torch.ones(4, 4)}, checkpoint_id=folder, no_dist=True)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "generation_config.json"])
def test_a_pipe_in_a_folder_of_transformers_is_not_waited_for(name: str, tmp_path: Path) -> None:
    config = GPT2Config(n_layer=1, n_head=2, n_embd=8, n_positions=16, vocab_size=11)
    for step in (1, 2, 3):
        GPT2LMHeadModel(config).save_pretrained(tmp_path / f"checkpoint-{step}")
    piped(tmp_path / "checkpoint-2" / name)
    found = [finding for finding in audit(tmp_path).findings if "is a pipe" in str(finding.reason)]
    assert len(found) == (name != "generation_config.json")
    assert open_series(tmp_path).weights(1)


READERS: dict[str, Callable[[Path], Any]] = {
    "log.csv": read_log,
    "step_1.pt": open_series,
    "step_1.safetensors": open_series,
    "tokens.npy": lambda path: read_sequences(path, 4),
    "config.json": read_json,
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("kind", ["a pipe", "a device", "a socket"])
def test_what_is_no_file_is_named(name: str, kind: str, tmp_path: Path) -> None:
    if kind == "a pipe":
        os.mkfifo(tmp_path / name)
    elif kind == "a device":
        (tmp_path / name).symlink_to("/dev/zero")
    else:
        import socket

        with socket.socket(socket.AF_UNIX) as one:
            one.bind(os.path.relpath(tmp_path / name))
    with pytest.raises((ValueError, OSError), match=rf"{name} is {kind}, expected a file"):
        READERS[name](tmp_path / name)


def test_a_pipe_among_event_files_is_named(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", 1.0, 0)
    os.mkfifo(tmp_path / "events.out.tfevents.9.here")
    with pytest.raises(ValueError, match=r"tfevents.9.here is a pipe"):
        read_log(tmp_path)


def test_a_pipe_in_a_sharded_checkpoint_is_named(tmp_path: Path) -> None:
    save_sharded(tmp_path / "step-1")
    piped(next((tmp_path / "step-1").glob("*.distcp")))
    with pytest.raises(ValueError, match="is a pipe"):
        open_series(
            tmp_path,
            architecture={"n_layers": 1, "d_model": 4, "n_ctx": 4, "d_head": 4, "d_vocab": 4, "attn_only": True},
        ).weights(1)


def test_a_file_larger_than_it_may_be_is_not_opened(tmp_path: Path) -> None:
    pd.DataFrame({"a": range(100)}).to_csv(tmp_path / "a.csv")
    check_file(tmp_path / "a.csv", largest=10**6)
    with pytest.raises(ValueError, match="bytes, and 5 can be read: it was not opened"):
        check_file(tmp_path / "a.csv", largest=5)
