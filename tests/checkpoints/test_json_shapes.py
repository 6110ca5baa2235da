"""Several tables in one JSON file: each curve has steps of its own, runs are runs, and what has no steps is told."""

import json
from pathlib import Path

import pytest

from stagewise.checkpoints.logged_curves import read_log


@pytest.mark.parametrize(
    "held",
    [
        {"train": {"step": [0, 10, 20, 30], "loss": [4, 3, 2, 1]}, "val": {"step": [0, 20], "loss": [5, 2]}},
        {"train_steps": [0, 10, 20, 30], "train/loss": [4, 3, 2, 1], "val_steps": [0, 20], "val/loss": [5, 2]},
        {"train": {"loss": {"0": 4, "10": 3, "20": 2, "30": 1}}, "val": {"loss": {"0": 5, "20": 2}}},
        [
            {"type": "train", "step": 0, "loss": 4},
            {"type": "val", "step": 0, "loss": 5},
            {"type": "train", "step": 10, "loss": 3},
            {"type": "train", "step": 20, "loss": 2},
            {"type": "val", "step": 20, "loss": 2},
            {"type": "train", "step": 30, "loss": 1},
        ],
        {"train/loss": [[0, 4], [10, 3], [20, 2], [30, 1]], "val/loss": [[0, 5], [20, 2]]},
    ],
)
def test_curves_in_json_each_have_steps_of_their_own(held: object, tmp_path: Path) -> None:
    (tmp_path / "log.json").write_text(json.dumps(held))
    table = read_log(tmp_path / "log.json")
    curves = {name: dict(zip(rows["step"], rows["value"], strict=True)) for name, rows in table.groupby("quantity")}
    assert curves == {"train/loss": {0: 4, 10: 3, 20: 2, 30: 1}, "val/loss": {0: 5, 20: 2}}


def test_objects_of_the_same_columns_are_runs_by_their_keys_unless_they_are_splits(tmp_path: Path) -> None:
    columns = {"step": [0, 10, 20, 30], "loss": [4, 3, 2, 1]}
    (tmp_path / "log.json").write_text(json.dumps({"runs": {"seed_0": columns, "seed_1": columns}}))
    assert {*read_log(tmp_path / "log.json")["run"]} == {"seed_0", "seed_1"}


def test_columns_without_steps_of_their_length_are_left_out_and_told(tmp_path: Path) -> None:
    held = {"steps": [0, 10, 20, 30, 40], "loss": [4, 3, 2, 1, 0], "val_loss": [5, 4, 3, 2], "betas": [0.9, 0.95]}
    (tmp_path / "log.json").write_text(json.dumps(held))
    with pytest.warns(UserWarning, match=r"no column of steps has as many values as val_loss \(4\): left out"):
        assert {*read_log(tmp_path / "log.json")["quantity"]} == {"loss"}
