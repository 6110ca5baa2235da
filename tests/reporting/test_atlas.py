"""A family on one page: what its sizes have in common, when, and at which loss."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from stagewise.checkpoints.run_folder import RUN, TABLE, write, write_json
from stagewise.reporting._atlas import Atlas, atlas

LOSS = {"probe": "Loss", "quantity": "cross_entropy"}


@pytest.fixture(scope="module")
def families(one_onset: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """Two sizes of two seeds; the large one has twice the tokens a step, and comes to its head at the same loss."""
    place, steps = tmp_path_factory.mktemp("family"), one_onset["step"].unique()
    loss = pd.DataFrame({"step": steps, "value": 5 - 0.5 * np.log1p(steps), "n": 64, **LOSS})
    folders: dict[str, list[Path]] = {"small": [], "large": []}
    for size, each in (("small", 1000), ("large", 2000)):
        for seed in (0, 1):
            folder = place / f"{size}-{seed}"
            table = pd.concat([one_onset, loss]).assign(run=folder.name, nested=0)
            table = table.assign(tokens=each * table["step"], seed=seed)
            write(folder / TABLE, lambda partial, table=table: table.to_parquet(partial, index=False))  # type: ignore[misc]
            write_json(folder / RUN, {"recipe": {}})
            folders[size].append(folder)
    return folders


@pytest.fixture(scope="module")
def written(families: dict[str, list[Path]], tmp_path_factory: pytest.TempPathFactory) -> Atlas:
    return atlas(families, tmp_path_factory.mktemp("atlas"))


def test_an_event_has_a_row_a_run_in_tokens_and_the_loss_there(written: Atlas) -> None:
    rows = written.events[written.events["event"] == "the first head attends more to the previous token"]
    assert rows[["size", "run"]].to_numpy().tolist() == [
        ["small", "small-0"], ["small", "small-1"], ["large", "large-0"], ["large", "large-1"]
    ]  # fmt: skip
    assert rows["time"].tolist() == pytest.approx([100_000, 100_000, 200_000, 200_000], rel=0.1)
    assert rows["loss"].tolist() == pytest.approx([5 - 0.5 * np.log(101)] * 4, rel=0.02)


def test_sizes_are_told_beside_each_other(written: Atlas) -> None:
    assert re.search(
        r"The first head attends more to the previous token: small at \S+k tokens \(loss 2\.\d+\); large at (19|20)\dk",
        str(written),
    )
    page = written.report.read_text(encoding="utf8")
    assert all(f'data-column="{size}"' in page for size in ("small", "large"))
    assert "2 of 2" in page
    assert "tokens (log scale" in page


def test_the_files_hold_the_same(written: Atlas) -> None:
    pd.testing.assert_frame_equal(pd.read_parquet(written.report.parent / "atlas.parquet"), written.events)
    data = json.loads((written.report.parent / "atlas.json").read_text())
    assert [run["size"] for run in data["runs"]] == ["small", "small", "large", "large"]
    assert [row["time"] for row in data["events"]] == written.events["time"].tolist()
    (small, large) = (row for row in data["over_seeds"] if row["event"].startswith("the first head"))
    assert (small["seeds"], small["runs"], large["time"]) == (2, 2, pytest.approx(2 * small["time"], rel=0.01))


def test_one_size_is_no_family(families: dict[str, list[Path]], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="an atlas is of two sizes or more, got small: `report` is of one"):
        atlas({"small": families["small"]}, tmp_path)
