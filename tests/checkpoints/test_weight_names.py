"""Names of files of weights: which ones hold a model, and which one is missing."""

from pathlib import Path

import pytest

from stagewise.checkpoints._weight_names import chosen_files, missing_shard, stem


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
