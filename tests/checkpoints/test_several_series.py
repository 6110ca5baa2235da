"""Seeds as an axis: folders or branches of one training as series, and one table of them all."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stagewise.checkpoints.series import CheckpointSeries, open_series
from stagewise.measurement.engine import measure
from stagewise.probes import AttentionEntropy, Loss, PatternClusters
from stagewise.tasks import RepeatedTokens

Saved = Callable[..., dict[str, bytes]]


@pytest.fixture
def seeds(tmp_path: Path, saved: Saved) -> list[CheckpointSeries]:
    for seed in (2, 10):
        for step in (0, 5):
            folder = tmp_path / f"small-seed{seed}" / f"checkpoint-{step}"
            folder.mkdir(parents=True)
            for name, content in saved("GPT2", seed + step).items():
                (folder / name).write_bytes(content)
    return [open_series(tmp_path / f"small-seed{seed}") for seed in (2, 10)]


def test_their_table_has_run_seed_and_step(seeds: list[CheckpointSeries]) -> None:
    assert [(series.name, series.seed, series.steps) for series in seeds] == [
        ("small-seed2", 2, (0, 5)),
        ("small-seed10", 10, (0, 5)),
    ]
    batch = RepeatedTokens(32, length=6).probe_batch(4, seed=0)
    probes = [Loss(), AttentionEntropy(), PatternClusters(max_clusters=3)]
    table = measure(seeds, probes, batch, progress=False)
    assert table[["run", "seed", "step"]].drop_duplicates().to_numpy().tolist() == [
        ["small-seed2", 2, 0],
        ["small-seed2", 2, 5],
        ["small-seed10", 10, 0],
        ["small-seed10", 10, 5],
    ]
    alone = measure(seeds[1], probes, batch, progress=False)
    own = table[table["seed"] == 10].reset_index(drop=True)
    assert own["value"].equals(alone["value"])


def test_a_branch_named_by_a_seed_has_it(local_hub: Callable[..., Any], saved: Saved, tmp_path: Path) -> None:
    names = ("seed_0-step_20k", "seed_0-step_40k", "seed_1-step_20k", "seed_1-step_40k")
    hub = {"cache": tmp_path, "endpoint": local_hub({name: saved("GPT2", 0) for name in names}).endpoint}
    series = open_series("owner/model", branch="seed_1", hub=hub)
    assert (series.seed, series.steps) == (1, (20_000, 40_000))


def test_series_of_one_name_are_refused(seeds: list[CheckpointSeries]) -> None:
    with pytest.raises(ValueError, match="several series need a name each; got small-seed2, small-seed2"):
        measure([seeds[0]] * 2, [Loss()], RepeatedTokens(32, length=6).probe_batch(4, seed=0), progress=False)
