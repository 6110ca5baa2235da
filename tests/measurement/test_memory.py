"""Peak memory of a measurement: 200 checkpoints take no more than 12."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import save_file

from stagewise import models as model
from stagewise.architecture import Architecture

FEW, MANY = 12, 200
SAME = 1.05
SIZES = {"n_layers": 2, "d_model": 32, "d_head": 8, "n_ctx": 32, "d_vocab": 32, "act_fn": "relu"}
COMMAND = "from stagewise.cli.app import app; app()"


def native(folder: Path, saved: Callable[..., dict[str, bytes]]) -> None:
    made = Architecture(SIZES)
    for step in range(MANY):
        save_file(model.weights(model.build(made, seed=step)), folder / f"model_{step}.safetensors")
    (folder / "config.json").write_text(json.dumps(SIZES))


def hugging_face(folder: Path, saved: Callable[..., dict[str, bytes]]) -> None:
    for step in range(MANY):
        (folder / f"checkpoint-{step}").mkdir()
        for name, content in saved("GPTNeoX", step).items():
            (folder / f"checkpoint-{step}" / name).write_bytes(content)


def first(folder: Path, n: int) -> Path:
    """A folder of the first checkpoints alone."""
    part = folder.with_name(f"{folder.name}-{n}")
    part.mkdir()
    for path in folder.iterdir():
        number = "".join(filter(str.isdigit, path.stem))
        if not number or int(number) < n:
            (part / path.name).symlink_to(path)
    return part


def peak(source: Path, out: Path) -> int:
    """Run `stagewise measure` in a process of its own; return its largest resident set."""
    arguments = [sys.executable, "-c", COMMAND, "measure", str(source), "--out", str(out), "--quiet"]
    process = subprocess.Popen(arguments, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0
    return usage.ru_maxrss


@pytest.mark.slow
@pytest.mark.parametrize("make", [native, hugging_face], ids=["HookedTransformer", "GPT-NeoX bridge"])
def test_two_hundred_checkpoints_take_the_memory_of_twelve(
    make: Callable[..., None], saved: Callable[..., dict[str, bytes]], tmp_path: Path
) -> None:
    folder = tmp_path / "all"
    folder.mkdir()
    make(folder, saved)
    peaks = [peak(first(folder, n), tmp_path / f"out-{n}") for n in (FEW, MANY)]
    assert peaks[1] <= SAME * peaks[0], f"{peaks} KB with {FEW} and {MANY} checkpoints"
