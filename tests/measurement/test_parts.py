"""One table from many parts: the same rows however it is held, and pages that nobody reads cost no memory."""

import resource
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from stagewise.measurement._parts import join, join_into, rows_of
from stagewise.table import ARRAYS, tidy


def rows(step: int) -> pd.DataFrame:
    """A checkpoint's rows: some with an interval and resamples, a profile, maps, axes of numbers and of words."""
    draws = np.random.default_rng(step).normal(size=(3, 4)).astype(np.float32)
    keys: dict[str, Any] = {"run": "mine", "step": step, "quantity": "q"}
    scalars = pd.DataFrame({"probe": "Loss", "reference": ["a", None, "c"], "value": [1.0, 2.0, 3.0], "n": 7})
    scalars = scalars.assign(lo=0.5, hi=4.0, resamples=pd.Series(list(draws), dtype=object), **keys)
    cells = pd.DataFrame({"probe": "Map", "query": range(6), "value": np.arange(6) / (step + 1)}).assign(**keys)
    maps = pd.DataFrame({"probe": "Map", "head": range(3), "map": list(draws)}).assign(**keys)
    if step == 4:
        return tidy([cells])  # nothing of the last one was resampled
    return tidy([scalars, cells.assign(tokens=10 * step) if step > 2 else cells, *[maps] * (step > 0)])


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    for step in range(5):
        rows(step).to_parquet(tmp_path / f"{step}.parquet", index=False)
    return [tmp_path / f"{step}.parquet" for step in range(5)]


def assert_same(one: pd.DataFrame, other: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(one.drop(columns=ARRAYS), other.drop(columns=ARRAYS), check_exact=True)
    for name in ARRAYS:
        assert one[name].isna().tolist() == other[name].isna().tolist()
        for own, its in zip(one[name].dropna(), other[name].dropna(), strict=True):
            np.testing.assert_array_equal(own, its)


@pytest.mark.parametrize("mapped_rows", [0, 10**6], ids=["mapped", "in memory"])
def test_a_joined_table_is_that_of_all_rows(mapped_rows: int, parts: list[Path]) -> None:
    assert_same(join(parts, mapped_rows), tidy(rows(step) for step in range(5)))


def test_a_saved_table_reads_back_as_it_is(parts: list[Path], tmp_path: Path) -> None:
    join_into(parts, tmp_path / "all.parquet")
    assert_same(pd.read_parquet(tmp_path / "all.parquet"), join(parts))


def test_a_mapped_table_outlives_its_parts_and_survives_parquet(parts: list[Path], tmp_path: Path) -> None:
    table = join(parts, mapped_rows=0)
    for part in parts:
        part.unlink()
    table.to_parquet(tmp_path / "again.parquet", index=False)
    assert_same(pd.read_parquet(tmp_path / "again.parquet"), table)


def test_a_mapped_table_can_be_changed_like_any_other(parts: list[Path]) -> None:
    table = join(parts, mapped_rows=0)
    table.loc[table["probe"] == "Map", "value"] = -1.0
    assert set(table.query("probe == 'Map'")["value"]) == {-1.0}
    assert set(join(parts).query("probe == 'Loss'")["value"]) == {1.0, 2.0, 3.0}


def test_the_rows_of_one_probe_are_read_alone(parts: list[Path]) -> None:
    assert_same(rows_of(parts, "Loss"), join(parts).query("probe == 'Loss'").reset_index(drop=True))


@pytest.mark.slow
def test_pages_that_nobody_reads_cost_no_memory(tmp_path: Path) -> None:
    n, copies = 30_000, 80
    cells = {"run": "r", "step": 0, "probe": "Map", "quantity": "q", "query": 3, "value": np.ones(n)}
    tidy([pd.DataFrame(cells)]).to_parquet(tmp_path / "one.parquet", index=False)
    # What reading takes is there from the first one on, which stays, so that a second one finds no room of its.
    first = join([tmp_path / "one.parquet"] * copies, mapped_rows=0)
    before = _resident()
    table = join([tmp_path / "one.parquet"] * copies, mapped_rows=0)
    grown = _resident() - before
    held = sum(column.nbytes for name, column in table.items() if name != "resamples")
    assert grown < held / 4
    assert len(first) == len(table) == table["value"].sum() == n * copies


def _resident() -> int:
    """Bytes of this process that are in memory."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except FileNotFoundError:
        pytest.skip("this system has no /proc to read the memory of a process from")
    return pages * resource.getpagesize()
