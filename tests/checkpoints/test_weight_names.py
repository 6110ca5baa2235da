"""Names of files of weights: which ones hold a model, and which one is missing."""

from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from safetensors.numpy import save_file

from stagewise.checkpoints._weight_files import load_file
from stagewise.checkpoints._weight_names import chosen_files, converter, missing_shard, stem


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["pytorch_model.bin", "model.safetensors", "optimizer.pt"], ("model.safetensors",)),
        (["pytorch_model.bin", "config.json"], ("pytorch_model.bin",)),
        (["optimizer.pt", "config.json"], ()),
        (
            ["model.safetensors.index.json", "model-2-of-2.safetensors", "model-1-of-2.safetensors", "model-1.bin"],
            ("model-1-of-2.safetensors", "model-2-of-2.safetensors"),
        ),
    ],
    ids=lambda value: "",
)
def test_weights_are_chosen_before_other_files(names: list[str], chosen: tuple[str, ...]) -> None:
    assert chosen_files(names) == chosen


def test_shards_that_are_all_there_miss_none() -> None:
    assert missing_shard([f"model-0000{k}-of-00003.safetensors" for k in (3, 1, 2)]) is None
    assert missing_shard(["model.safetensors"]) is None


def test_a_file_loses_its_endings_and_a_folder_none() -> None:
    assert (stem(Path("checkpoint-12.pth.tar")), stem(Path("step_1.5"))) == ("checkpoint-12", "step_1.5")


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_advice_to_save_arrays_by_name_keeps_their_values(order: Literal["C", "F"], tmp_path: Path) -> None:
    array = np.asarray(np.arange(12.0).reshape(3, 4), order=order)
    assert "safetensors.numpy.save_file`, each as `np.ascontiguousarray(array)`" in converter(["model.h5"])
    arrays = {"kernel": array, "turned": array.T}
    save_file({name: np.ascontiguousarray(each) for name, each in arrays.items()}, tmp_path / "w.safetensors")
    weights = load_file(tmp_path / "w.safetensors")
    np.testing.assert_array_equal(weights["kernel"], array)
    np.testing.assert_array_equal(weights["turned"], array.T)
