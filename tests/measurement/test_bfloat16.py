"""A table in bfloat16: near that in float32, by the same way, and never taken for it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from stagewise.checkpoints._table_file import TableFile, read_json
from stagewise.checkpoints.run_folder import TABLE
from stagewise.checkpoints.series import CheckpointSeries, open_series
from stagewise.measurement._earlier import _SETTINGS, PASSES, parts_folder
from stagewise.measurement._provenance import recorded
from stagewise.measurement.engine import measure
from stagewise.models import has_hooked_transformer
from stagewise.probe import AbstractProbe
from stagewise.probes import (
    AttentionEntropy,
    AttentionTo,
    DirectLogitAttribution,
    EdgeAttribution,
    HeadAblation,
    HeadAttribution,
    LogitLens,
    Loss,
    OVCopying,
    ParticipationRatio,
    QKOffset,
    RestrictedContextKL,
)
from stagewise.task import Batch
from stagewise.tasks import RepeatedTokens
from tests.conftest import unchecked_types

Make = Callable[..., CheckpointSeries]

DTYPES: Any = ("float32", "bfloat16")

NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")
DEVICES = ["cpu", pytest.param("cuda", marks=NO_GPU)]

PROBES = [
    Loss(),
    AttentionEntropy(),
    AttentionTo(),
    ParticipationRatio(),
    RestrictedContextKL((2,)),
    HeadAblation(kinds=("mean", "pattern", "values")),
    LogitLens(),
    DirectLogitAttribution(),
]
"""Some of each kind: of predictions, patterns, activations, edited passes, and the residual stream."""

NEAR = 0.05
"""Difference of a quantity's rows over the largest of them, on random models of a width of 12 to 32: rounding their
weights to bfloat16, and nothing else, changes them as much."""


def both(series: CheckpointSeries, probes: Sequence[AbstractProbe], batch: Batch, **how: Any) -> list[pd.DataFrame]:
    """The table in float32, and that in bfloat16."""
    return [measure(series, probes, batch, dtype=dtype, progress=False, **how) for dtype in DTYPES]


def differences(whole: pd.DataFrame, narrow: pd.DataFrame) -> pd.Series:
    """The largest difference of each quantity's rows, over the largest of them."""
    values = pd.DataFrame({"probe": whole["probe"], "quantity": whole["quantity"], "size": whole["value"].abs()})
    values["difference"] = (whole["value"] - narrow["value"]).abs()
    largest = values.groupby(["probe", "quantity"]).max()
    return largest["difference"] / largest["size"]


@pytest.mark.one_of(2)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("memory", [None, 1], ids=["at once", "in slices"])
@pytest.mark.parametrize(
    "change",
    [{}, pytest.param({"positional_embedding_type": "rotary"}, marks=pytest.mark.slow)],
    ids=["learned", "rotary"],
)
def test_the_table_is_near_that_in_float32(
    change: dict[str, Any], memory: int | None, device: str, series_of: Make, batch: Batch
) -> None:
    whole = measure(series_of(**change), PROBES, batch, progress=False)
    narrow = measure(series_of(**change), PROBES, batch, dtype="bfloat16", device=device, memory=memory, progress=False)
    apart = differences(whole, narrow)
    assert apart.index[apart > NEAR].tolist() == []
    assert apart["RestrictedContextKL", "kl"] > 0


@pytest.mark.one_of(2)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["GPT2", "Llama"])
def test_that_of_a_bridge_is_near_too(kind: str, device: str, hugging_face: Callable[..., nn.Module]) -> None:
    series = open_series([(0, hugging_face(kind))])
    batch = RepeatedTokens.for_model(series.architecture).probe_batch(32, seed=0)
    whole = measure(series, PROBES, batch, progress=False)
    apart = differences(whole, measure(series, PROBES, batch, dtype="bfloat16", device=device, progress=False))
    assert apart.index[apart > NEAR].tolist() == []
    assert apart["Loss", "cross_entropy"] > 0


@pytest.mark.parametrize(
    ("probe", "by_hooks"),
    [
        pytest.param(EdgeAttribution(), False, marks=pytest.mark.slow),
        (HeadAttribution(), False),
        (HeadAttribution(), True),
    ],
)
def test_gradients_are_near_those_in_float32(
    probe: AbstractProbe, by_hooks: bool, series_of: Make, batch: Batch
) -> None:
    series = series_of((5,), d_model=48, d_mlp=96, act_fn="gelu")  # whose gradient has no steps
    tables = both(series, [probe], batch, by_hooks=by_hooks)
    assert 0 < differences(*(table[table["quantity"] == "estimated_change"] for table in tables)).item() < NEAR


def test_probes_of_the_weights_alone_are_the_same_to_the_bit(series_of: Make, batch: Batch) -> None:
    whole, narrow = both(series_of(), [OVCopying(), QKOffset(1)], batch)
    pd.testing.assert_frame_equal(narrow, whole, check_exact=True)


@pytest.mark.parametrize("memory", [None, pytest.param(1, marks=pytest.mark.slow)], ids=["at once", "in slices"])
def test_the_way_of_edited_passes_is_that_of_float32(
    memory: int | None, series_of: Make, batch: Batch, tmp_path: Path
) -> None:
    changes: dict[str, dict[str, Any]] = {"lean": {}} | (
        {"with hooks": {"positional_embedding_type": "alibi"}} if has_hooked_transformer() else {}
    )
    for way, change in changes.items():
        path = tmp_path / "table.parquet"
        measure(
            series_of(**change), [HeadAblation()], batch, dtype="bfloat16", memory=memory, save=path, progress=False
        )
        assert TableFile(path).provenance[PASSES] == way


def test_rows_in_another_dtype_are_not_taken_up(series_of: Make, batch: Batch, tmp_path: Path) -> None:
    series, alone = series_of(), both(series_of(), [Loss()], batch)
    for turn in range(2):
        for table, expected in zip(both(series, [Loss()], batch, folder=tmp_path), alone, strict=True):
            pd.testing.assert_frame_equal(table, expected, check_exact=True, obj=f"turn {turn}")
    assert [read_json(path, "")["dtype"] for path in sorted(tmp_path.glob(f"*/{_SETTINGS}"))] in (
        ["float32", "bfloat16"],
        ["bfloat16", "float32"],
    )


def test_rows_of_before_there_was_a_dtype_are_those_of_float32(series_of: Make, batch: Batch, tmp_path: Path) -> None:
    before, _ = parts_folder(tmp_path, series_of(), [Loss()], batch, 200, False)
    whole, narrow = (parts_folder(tmp_path, series_of(), [Loss()], batch, 200, False, each)[0] for each in DTYPES)
    assert whole == before != narrow


@pytest.mark.parametrize("fixture", ["no_workers", pytest.param("batch", marks=pytest.mark.slow)])
def test_workers_give_the_same_rows(
    fixture: str, series_of: Make, batch: Batch, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(fixture)  # two processes, or this one in their place
    probes = [Loss(), HeadAblation(kinds=("mean",))]
    alone = measure(series_of(), probes, batch, dtype="bfloat16", progress=False)
    several = measure(series_of(), probes, batch, dtype="bfloat16", workers=2, progress=False)
    pd.testing.assert_frame_equal(several, alone, check_exact=True)


def test_a_table_says_its_dtype(series_of: Make, batch: Batch, tmp_path: Path) -> None:
    for dtype in DTYPES:
        path = tmp_path / TABLE
        path.parent.mkdir(exist_ok=True)
        measure(series_of(), [Loss()], batch, dtype=dtype, save=path, progress=False)
        assert recorded(tmp_path)["dtype"] == TableFile(path).provenance["dtype"] == dtype


def test_what_nothing_is_computed_in_is_refused(series_of: Make, batch: Batch) -> None:
    with unchecked_types(), pytest.raises(ValueError, match="dtype is one of float32, bfloat16, got 'float16'"):
        measure(series_of(), [Loss()], batch, dtype="float16")  # type: ignore[arg-type]


@NO_GPU
def test_a_gpu_gives_the_table_of_the_cpu(series_of: Make, batch: Batch) -> None:
    probes = [*PROBES, HeadAttribution(), EdgeAttribution(), OVCopying(), QKOffset(1)]
    tables = [measure(series_of(), probes, batch, device=device, progress=False) for device in ("cpu", "cuda")]
    np.testing.assert_allclose(tables[0]["value"], tables[1]["value"], atol=1e-4)
