"""Folders of checkpoints: which files and folders in them are of the series."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from stagewise import models as model
from stagewise.checkpoints.series import find, open_series
from tests.checkpoints.test_sources import CONFIG, native, put


@pytest.mark.each_value
@pytest.mark.parametrize("ending", ["safetensors", "pt", "pth"])
@pytest.mark.parametrize("wrapper", [None, "model", "state_dict"])
def test_a_folder_of_weight_files_is_a_series(ending: str, wrapper: str | None, tmp_path: Path) -> None:
    for step in (0, 30, 200):
        state = model.weights(native(step))
        path = tmp_path / f"model_{step}.{ending}"
        if ending == "safetensors":
            save_file(state, path)
        else:
            torch.save(state if wrapper is None else {wrapper: state, "step": step}, path)
    series = open_series(tmp_path, architecture=CONFIG)
    assert series.steps == (0, 30, 200)
    assert all(torch.equal(series.weights(30)[name], weight) for name, weight in model.weights(native(30)).items())
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    assert open_series(tmp_path).architecture == series.architecture


def test_a_folder_a_step_may_have_a_file_of_any_name_and_the_config_beside_the_folders(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    for step in (0, 30):
        put(tmp_path / f"step_{step}", {})
        torch.save(model.weights(native(step)), tmp_path / f"step_{step}" / "net.pt")
        torch.save({"state": {}}, tmp_path / f"step_{step}" / "optimizer.pt")
    series = open_series(tmp_path)
    assert series.steps == (0, 30)
    assert torch.equal(series.weights(30)["embed.W_E"], model.weights(native(30))["embed.W_E"])


def test_an_optimisers_state_beside_the_weights_is_no_checkpoint(tmp_path: Path) -> None:
    for step in (0, 30):
        torch.save(model.weights(native(step)), tmp_path / f"model_{step}.pt")
        for name in ("optim", "optimizer", "lr_scheduler", "rng"):
            torch.save({"state": {}}, tmp_path / f"{name}_{step}.pt")
    assert open_series(tmp_path, architecture=CONFIG).steps == (0, 30)


def test_copies_beside_the_checkpoints_are_none_of_the_series(tmp_path: Path) -> None:
    for name in ("epoch=0-step=20", "epoch=1-step=40", "last-v1", "best_40"):
        torch.save({"state_dict": model.weights(native(0))}, tmp_path / f"{name}.ckpt")
    source = find(tmp_path)
    assert [entry.at.step for entry in source.entries] == [20, 40]
    assert source.ignored == ("best_40.ckpt", "last-v1.ckpt")


@pytest.mark.parametrize("names", [["best_20", "best_40"], ["step=20-loss=0.5", "step=40-loss=0.25"]])
def test_names_of_another_kind_count_where_there_are_no_others(names: list[str], tmp_path: Path) -> None:
    for name in names:
        torch.save(model.weights(native(0)), tmp_path / f"{name}.pt")
    assert open_series(tmp_path, architecture=CONFIG).steps == (20, 40)
