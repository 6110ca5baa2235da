"""Kinds of attention: like heads are of one, whatever their indices, and a kind stays itself over checkpoints."""

import numpy as np
import pandas as pd

from stagewise.findings._kinds import kinds_of, readings_of
from tests.fixtures.profiles import OFFSETS, profile_rows


def labels_of(rows: pd.DataFrame) -> np.ndarray:
    readings = readings_of(rows)
    assert readings is not None
    return kinds_of(readings).labels


def test_heads_with_one_pattern_are_of_one_kind() -> None:
    labels = labels_of(profile_rows([[2, 5, 2, None]] * 6))
    assert (labels == [0, 1, 0, 2]).all()


def test_a_kind_is_its_pattern_even_where_heads_exchange_theirs_gradually() -> None:
    rows = profile_rows([[1, 4, None]] * 30)
    way = 1 / (1 + np.exp(-(rows["step"] / 10 - 15)))
    other = rows.assign(head=rows["head"].map({0: 1, 1: 0, 2: 2})).set_index(["step", "head", "feature"])["value"]
    there = other.reindex(pd.MultiIndex.from_frame(rows[["step", "head", "feature"]])).to_numpy()
    labels = labels_of(rows.assign(value=(1 - way) * rows["value"] + way * there))
    assert (labels[0] == [0, 1, 2]).all()
    assert (labels[-1] == [1, 0, 2]).all()


def test_no_kind_takes_the_name_of_heads_that_were_half_way_to_other_places() -> None:
    """Three heads go round; half-way one of them is like none, and later the kinds that stay come a little closer."""
    rows = profile_rows([[1, 4, 6, None]] * 15 + [[4, 6, 1, None]] * 20)
    values = rows["value"].to_numpy().reshape(35, 4, OFFSETS).copy()
    way = np.array([0.3, 0.37, 0.3, 0])[:, None]
    values[15] = (1 - way) * values[14] + way * values[16]
    blur = (0.02 * np.arange(-16, 19)).clip(0, 0.2)[:, None, None]
    values[:, :3] = (1 - blur) * values[:, :3] + blur / OFFSETS
    labels = labels_of(rows.assign(value=values.ravel()))
    assert (labels[:15] == [0, 1, 2, 3]).all()
    assert (labels[16:] == [1, 2, 0, 3]).all()


def test_what_a_head_writes_decides_between_kinds_that_cross() -> None:
    rows = profile_rows([[1, 4]] * 6)
    writes = rows[rows["feature"] == "offset 0"].assign(probe="OVCopying", quantity="copying")
    readings = readings_of(pd.concat([rows, writes.assign(value=writes["head"] - 0.5)]))
    assert readings is not None
    assert readings.outputs.shape == (6, 2, 1)
    assert (readings.outputs[:, :, 0] == [-0.5, 0.5]).all()


def test_rows_without_patterns_have_no_readings() -> None:
    assert readings_of(pd.DataFrame({"probe": ["Loss"], "quantity": ["excess"]})) is None
