"""Checkpoints that lie beside a table, or in its source, and are not in it."""

from pathlib import Path

import pandas as pd

from stagewise.checkpoints import unmeasured, unmeasured_in_words
from stagewise.checkpoints.run_folder import TABLE
from stagewise.table import tidy


def measured(folder: Path, steps: list[int]) -> None:
    """A folder of checkpoints at steps 0 to 30, and a table of some of them."""
    for step in (0, 10, 20, 30):
        (folder / f"step_{step}.pt").touch()
    (folder / TABLE).parent.mkdir()
    (folder / "run.json").touch()
    rows = [pd.DataFrame({"run": "a", "step": [step], "probe": "Loss", "quantity": "loss"}) for step in steps]
    tidy(rows).to_parquet(folder / TABLE)


def test_checkpoints_that_a_table_lacks_are_named(tmp_path: Path) -> None:
    measured(tmp_path, [0, 20])
    assert unmeasured(tmp_path) == [10, 30]
    assert unmeasured_in_words(tmp_path).startswith("2 saved checkpoints are not in the table, step 10 first")


def test_a_table_of_all_lacks_none_and_one_of_other_steps_is_not_compared(tmp_path: Path) -> None:
    for name, steps in (("all", [0, 10, 20, 30]), ("others", [0, 5])):
        (tmp_path / name).mkdir()
        measured(tmp_path / name, steps)
        assert unmeasured(tmp_path / name) == []
        assert unmeasured_in_words(tmp_path / name) == ""
    assert unmeasured(tmp_path) == []
