"""Seeds as an axis: repositories, folders or branches of one training, and one table of them all."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stagewise.checkpoints.seeds import open_seeds
from stagewise.checkpoints.series import open_series
from stagewise.measurement.engine import measure
from stagewise.probes import AttentionEntropy, Loss, PatternClusters
from stagewise.tasks import RepeatedTokens

Saved = Callable[..., dict[str, bytes]]


@pytest.fixture
def folders(tmp_path: Path, saved: Saved) -> Path:
    for seed in (2, 10):
        for step in (0, 5):
            folder = tmp_path / f"small-seed{seed}" / f"checkpoint-{step}"
            folder.mkdir(parents=True)
            for name, content in saved("GPT2", seed + step).items():
                (folder / name).write_bytes(content)
    return tmp_path


def test_a_folder_a_seed_is_a_series_a_seed(folders: Path) -> None:
    found = open_seeds(folders / "small-seed{seed}")
    assert [(series.name, series.seed, series.steps) for series in found] == [
        ("small-seed2", 2, (0, 5)),
        ("small-seed10", 10, (0, 5)),
    ]
    assert [series.seed for series in open_seeds(folders / "small-seed{seed}", [10], steps=[5])] == [10]
    assert open_series(folders / "small-seed2").seed == 2


def test_their_table_has_run_seed_and_step(folders: Path, tmp_path: Path) -> None:
    batch = RepeatedTokens(32, length=6).probe_batch(4, seed=0)
    series = open_seeds(folders / "small-seed{seed}")
    probes = [Loss(), AttentionEntropy(), PatternClusters(max_clusters=3)]
    table = measure(series, probes, batch, progress=False)
    assert table[["run", "seed", "step"]].drop_duplicates().to_numpy().tolist() == [
        ["small-seed2", 2, 0],
        ["small-seed2", 2, 5],
        ["small-seed10", 10, 0],
        ["small-seed10", 10, 5],
    ]
    alone = measure(series[1], probes, batch, progress=False)
    own = table[table["seed"] == 10].reset_index(drop=True)
    assert own["value"].equals(alone["value"])


def test_branches_named_by_seeds_are_seeds(local_hub: Callable[..., Any], saved: Saved, tmp_path: Path) -> None:
    names = ("seed_0-step_20k", "seed_0-step_40k", "seed_1-step_20k", "seed_1-step_40k")
    hub = {"cache": tmp_path, "endpoint": local_hub({name: saved("GPT2", 0) for name in names}).endpoint}
    found = open_seeds("owner/model", hub=hub)
    assert [(series.name, series.seed, series.steps) for series in found] == [
        ("owner/model seed 0", 0, (20_000, 40_000)),
        ("owner/model seed 1", 1, (20_000, 40_000)),
    ]
    with pytest.raises(ValueError, match="there is no branch of owner/model of seed 7; there are 0, 1"):
        open_seeds("owner/model", [7], hub=hub)


def test_series_of_one_name_are_refused(folders: Path) -> None:
    one = open_series(folders / "small-seed2")
    with pytest.raises(ValueError, match="several series need a name each; got small-seed2, small-seed2"):
        measure([one, one], [Loss()], RepeatedTokens(32, length=6).probe_batch(4, seed=0), progress=False)


def test_seeds_that_are_not_there_are_named(folders: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no folder .*small-seed\{seed\} of seed 3; there are 2, 10"):
        open_seeds(folders / "small-seed{seed}", [2, 3])
    with pytest.raises(
        ValueError, match=r"no folder .*large-seed\{seed\} is named by a seed: of repositories of the hub"
    ):
        open_seeds(folders / "large-seed{seed}")
    with pytest.raises(
        ValueError, match=r"no branch of small-seed2 is named by a seed: give a name with \{seed\} in it"
    ):
        open_seeds(folders / "small-seed2")
