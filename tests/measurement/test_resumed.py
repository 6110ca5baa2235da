"""A measurement that was interrupted resumes where it stopped, and reuses no rows but its own."""

import dataclasses
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from stagewise.architecture import Architecture
from stagewise.checkpoints.run_folder import write
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.measurement.engine import measure
from stagewise.probes import (
    AttentionEntropy,
    AttentionTo,
    HeadAblation,
    HeadSpecialisation,
    KLToReference,
    Loss,
    MeanPattern,
    OffsetProfile,
    PatternClusters,
    RestrictedContextKL,
    ValueAlignment,
)
from stagewise.table import ARRAYS, maps_in
from stagewise.task import Batch
from stagewise.tasks import MarkovChain

pytestmark = pytest.mark.usefixtures("unchecked")

Make = Callable[..., CheckpointSeries]

TASK = MarkovChain(d_vocab=4, spans=(1, 1, 1), length=4)
FEATURES = dict(zip("abc", TASK.feature_matrices(), strict=True))
MASSES = [AttentionEntropy(), AttentionTo(), HeadSpecialisation(), MeanPattern(), OffsetProfile()]
PROBES = [
    *MASSES,
    *(Loss(), KLToReference(), HeadAblation(), PatternClusters(max_clusters=3), RestrictedContextKL((1, 2))),
]


def loads(series: CheckpointSeries, fail_at: int | None = None) -> tuple[CheckpointSeries, list[int]]:
    """The series, and the list of steps it has loaded; one step can be made to fail."""
    loaded: list[int] = []

    def load(step: int) -> dict[str, torch.Tensor]:
        if step == fail_at:
            raise KeyboardInterrupt(f"stopped at {step}")
        loaded.append(step)
        return dict(series.load(step))

    return dataclasses.replace(series, load=load), loaded


def test_an_interrupted_measurement_goes_on_where_it_stopped(
    series_of: Make, batch: Batch, tmp_path: Path, executions: Counter[int | str]
) -> None:
    series = series_of()
    broken, _ = loads(series, fail_at=9)
    with pytest.raises(KeyboardInterrupt, match="stopped at 9"):
        measure(broken, PROBES, batch, folder=tmp_path, progress=False)
    executions.clear()
    resumed = measure(series, PROBES, batch, folder=tmp_path, progress=False)
    assert executions["embed"] == 1
    whole = measure(series, PROBES, batch, progress=False)
    pd.testing.assert_frame_equal(resumed.drop(columns="resamples"), whole.drop(columns="resamples"), check_exact=True)
    both = zip(resumed["resamples"].dropna(), whole["resamples"].dropna(), strict=True)
    assert all(list(kept) == list(new) for kept, new in both)


def changed_weights(series: CheckpointSeries) -> CheckpointSeries:
    def load(step: int) -> dict[str, torch.Tensor]:
        return {name: weight + (0.1 if name == "unembed.W_U" else 0) for name, weight in series.load(step).items()}

    return dataclasses.replace(series, load=load)


def with_gelu(made: Architecture) -> Architecture:
    return Architecture({**made.config, "act_fn": "gelu"})


Arguments = dict[str, Any]
CHANGES: dict[str, Callable[[Arguments], Arguments]] = {
    "batch": lambda a: {"batch": TASK.probe_batch(12, seed=1)},
    "targets": lambda a: {"batch": dataclasses.replace(a["batch"], targets=a["batch"].targets.roll(1, 0))},
    "references": lambda a: {"batch": dataclasses.replace(a["batch"], references={})},
    "scored": lambda a: {"batch": dataclasses.replace(a["batch"], scored=torch.ones(12, 6, dtype=torch.bool))},
    "probes": lambda a: {"probes": [Loss(), RestrictedContextKL((1, 3))]},
    "context of the same digits": lambda a: {"probes": [Loss(), RestrictedContextKL((12,))]},
    "resamples": lambda a: {"resamples": 7},
    "weights": lambda a: {"series": changed_weights(a["series"])},
    "architecture": lambda a: {
        "series": dataclasses.replace(a["series"], architecture=with_gelu(a["series"].architecture))
    },
    "run": lambda a: {"series": dataclasses.replace(a["series"], name="other")},
}


@pytest.fixture(scope="module")
def first(series_of: Make, batch: Batch) -> Arguments:
    return {"series": series_of(), "probes": [Loss(), RestrictedContextKL((1, 2))], "batch": batch}


@pytest.fixture(scope="module")
def parts(first: Arguments, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rows of the first measurement. Copy them before anything else is measured there."""
    folder = tmp_path_factory.mktemp("first")
    measure(**first, folder=folder, progress=False)
    return folder


@pytest.mark.one_of(3)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_rows_of_another_measurement_are_not_taken_up(
    change: Callable[[Arguments], Arguments],
    first: Arguments,
    parts: Path,
    tmp_path: Path,
    executions: Counter[int | str],
) -> None:
    folder = Path(shutil.copytree(parts, tmp_path / "parts"))
    second = {**first, **change(first)}
    kept = measure(**second, folder=folder, progress=False)
    assert executions["embed"] == 3
    fresh = measure(**second, progress=False)
    pd.testing.assert_frame_equal(kept.drop(columns="resamples"), fresh.drop(columns="resamples"), check_exact=True)


def test_the_same_measurement_runs_no_model(
    series_of: Make, batch: Batch, tmp_path: Path, executions: Counter[int | str]
) -> None:
    probes = [Loss(), ValueAlignment(FEATURES)]
    measure(series_of(normalization_type=None), probes, batch, folder=tmp_path, progress=False)
    executions.clear()
    again = [Loss(), ValueAlignment({name: matrix.clone() for name, matrix in FEATURES.items()})]
    measure(series_of(normalization_type=None), again, TASK.probe_batch(12, seed=0), folder=tmp_path, progress=False)
    assert not executions


def test_a_longer_series_measures_its_new_steps_alone(
    series_of: Make, batch: Batch, tmp_path: Path, executions: Counter[int | str]
) -> None:
    measure(series_of((0, 5)), [Loss()], batch, folder=tmp_path, progress=False)
    executions.clear()
    table = measure(series_of((0, 5, 7, 9)), [Loss()], batch, folder=tmp_path, progress=False)
    assert executions["embed"] == 2
    assert table["step"].drop_duplicates().tolist() == [0, 5, 7, 9]


def test_a_broken_write_leaves_no_part_behind(
    series_of: Make, batch: Batch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_table(table: pa.Table, path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(pq, "write_table", write_table)
        with pytest.raises(OSError, match="the disk is full"):
            measure(series_of(), [Loss()], batch, folder=tmp_path, progress=False)
    assert not [path for path in tmp_path.rglob("*") if "parquet" in path.name]
    assert len(measure(series_of(), [Loss()], batch, folder=tmp_path, progress=False)) == 6


def test_the_table_survives_parquet(series_of: Make, batch: Batch, tmp_path: Path) -> None:
    table = measure(series_of(), PROBES, batch, progress=False)
    path = write(tmp_path / "t.parquet", lambda partial: table.to_parquet(partial, index=False))
    back = pd.read_parquet(path)
    pd.testing.assert_frame_equal(table.drop(columns=ARRAYS), back.drop(columns=ARRAYS))
    np.testing.assert_array_equal(maps_in(table.dropna(subset="map")), maps_in(back.dropna(subset="map")))
