"""One file as a source: lists and mappings of state dicts, with their steps where they have some."""

import argparse
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.checkpoints.series import open_series

CONFIG = {"n_layers": 1, "d_model": 8, "d_head": 4, "n_ctx": 6, "d_vocab": 5, "act_fn": "relu"}


def state(seed: int) -> dict[str, Tensor]:
    return dict(models.weights(models.build(Architecture(CONFIG), seed)))


WAYS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "a list": (lambda one: [one(0), one(1), one(2)], (0, 1, 2)),
    "a tuple": (lambda one: (one(0), one(1), one(2)), (0, 1, 2)),
    "a list with steps": (lambda one: [{"model": one(k), "step": 50 * k} for k in range(3)], (0, 50, 100)),
    "a mapping from steps": (lambda one: {100: one(1), 0: one(0), 300: one(2)}, (0, 100, 300)),
    "a mapping from names": (lambda one: {f"step_{100 * k}": one(k) for k in range(3)}, (0, 100, 200)),
    "grokking notebooks": (
        lambda one: {
            "model": one(2),
            "config": CONFIG,
            "checkpoints": [one(0), one(1), one(2)],
            "checkpoint_epochs": [0, 100, 200],
            "train_losses": [3, 2, 1, 0],
        },
        (0, 100, 200),
    ),
    "steps as a tensor": (
        lambda one: {"states": [one(0), one(1), one(2)], "steps": torch.tensor([0, 7, 9]), "lr": [1, 2, 3]},
        (0, 7, 9),
    ),
    "objects beside": (lambda one: {"all": [one(0), one(1), one(2)], "args": argparse.Namespace(a=1)}, (0, 1, 2)),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_checkpoints_in_a_file_are_a_series(way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make, steps = WAYS[way]
    torch.save(make(state), tmp_path / "run.pt")
    series = open_series(tmp_path / "run.pt", architecture=CONFIG)
    assert series.steps == steps
    for seed, step in enumerate(steps):
        assert all(torch.equal(series.weights(step)[name], weight) for name, weight in state(seed).items())
    counted = "entries of the list, not updates" in capsys.readouterr().err
    assert counted is (steps == (0, 1, 2))


def test_the_config_in_the_file_is_that_of_its_checkpoints(tmp_path: Path) -> None:
    torch.save(WAYS["grokking notebooks"][0](state), tmp_path / "run.pth")
    assert open_series(tmp_path / "run.pth").architecture == Architecture(CONFIG)


@pytest.mark.parametrize("ending", ["pt", "safetensors"])
def test_a_file_of_one_checkpoint_has_the_step_in_its_name_or_in_it(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"step_30.{ending}"
    save_file(state(0), path) if ending == "safetensors" else torch.save(state(0), path)
    assert open_series(path, architecture=CONFIG).steps == (30,)
    torch.save({"model": state(0), "step": 70}, tmp_path / "last.pt")
    assert open_series(tmp_path / "last.pt", architecture=CONFIG).steps == (70,)
    torch.save(state(0), tmp_path / "last.pt")
    with pytest.raises(
        ValueError, match=r"last\.pt holds one checkpoint, and no step of it \(.*\): give it, as in --parse"
    ):
        open_series(tmp_path / "last.pt", architecture=CONFIG)
