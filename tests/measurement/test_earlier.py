"""Rows that lie on disk are taken up where nothing differs that decides them, and nowhere else."""

import dataclasses
import importlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from stagewise.checkpoints._table_file import TableFile, read_json
from stagewise.checkpoints.run_folder import write_json
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.measurement._earlier import join, join_into, rows_of
from stagewise.measurement._measuring import write_part
from stagewise.measurement.engine import measure
from stagewise.probe import AbstractProbe, Reading, View
from stagewise.probes import AttentionTo, HeadAblation, KLToReference, Loss, MeanPattern, PatternClusters
from stagewise.table import ARRAYS, tidy
from stagewise.task import Batch
from tests.fixtures.runs import AtOnce

Make = Callable[..., CheckpointSeries]


def assert_same(one: pd.DataFrame, other: pd.DataFrame) -> None:
    arrays = [name for name in ARRAYS if name in other]
    pd.testing.assert_frame_equal(one.drop(columns=arrays), other.drop(columns=arrays), check_exact=True)
    for name in arrays:
        assert one[name].isna().tolist() == other[name].isna().tolist()
        for own, its in zip(one[name].dropna(), other[name].dropna(), strict=True):
            np.testing.assert_array_equal(own, its)


EVERY = [Loss(), MeanPattern(), AttentionTo(), HeadAblation(), KLToReference(), PatternClusters(max_clusters=3)]
NAMES = [type(probe).__name__ for probe in EVERY]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each probe has read the batch."""
    count: Counter[str] = Counter()

    def counted(name: str, read: Callable[..., list[Reading]]) -> Callable[..., list[Reading]]:
        def counting(probe: AbstractProbe, view: View) -> list[Reading]:
            count[name] += 1
            return read(probe, view)

        return counting

    for probe in EVERY:
        monkeypatch.setattr(type(probe), "read", counted(type(probe).__name__, type(probe).read))
    return count


@pytest.mark.one_of(3)
@pytest.mark.each_value
@pytest.mark.parametrize("memory", [None, 1], ids=["at once", "in slices"])
@pytest.mark.parametrize("first", [["AttentionTo", "Loss"], NAMES[::-1], ["HeadAblation"]], ids=" ".join)
def test_only_what_earlier_ones_lack_is_measured_and_the_table_is_that_of_all_at_once(
    first: list[str], memory: int | None, series_of: Make, batch: Batch, tmp_path: Path, reads: Counter[str]
) -> None:
    probes = [EVERY[NAMES.index(name)] for name in first]
    measure(series_of((3, 5)), probes, batch, folder=tmp_path, memory=memory, progress=False)
    reads.clear()
    table = measure(series_of((3, 5)), EVERY, batch, folder=tmp_path, memory=memory, progress=False)
    assert set(reads) == set(NAMES) - set(first)
    assert_same(table, measure(series_of((3, 5)), EVERY, batch, memory=memory, progress=False))


def test_fewer_probes_measure_nothing_and_leave_no_column_of_the_others(
    series_of: Make, batch: Batch, tmp_path: Path, reads: Counter[str]
) -> None:
    measure(series_of(), EVERY, batch, folder=tmp_path, progress=False)
    reads.clear()
    few, saved = [KLToReference(), Loss()], tmp_path / "few.parquet"
    table = measure(series_of(), few, batch, folder=tmp_path, save=saved, progress=False)
    assert not reads
    assert_same(table, measure(series_of(), few, batch, progress=False))
    assert "edited passes" not in TableFile(saved).provenance


def test_rows_of_several_measurements_are_put_together_and_keep_the_way_of_their_passes(
    series_of: Make, batch: Batch, tmp_path: Path, reads: Counter[str]
) -> None:
    for probe in EVERY:
        measure(series_of((3, 5)), [probe], batch, folder=tmp_path, progress=False)
    reads.clear()
    table = measure(series_of((3, 5)), EVERY, batch, folder=tmp_path, save=tmp_path / "all.parquet", progress=False)
    assert not reads
    assert_same(table, measure(series_of((3, 5)), EVERY, batch, progress=False))
    assert TableFile(tmp_path / "all.parquet").provenance["edited passes"] == "lean"


def test_other_processes_take_rows_up_too(series_of: Make, batch: Batch, tmp_path: Path, reads: Counter[str]) -> None:
    measure(series_of(), [Loss()], batch, folder=tmp_path, progress=False)
    reads.clear()
    with AtOnce() as executor:
        measure(series_of(), EVERY, batch, folder=tmp_path, executor=executor, progress=False)
    assert reads["AttentionTo"] == 3
    assert "Loss" not in reads


@pytest.mark.parametrize("changed", [{"resamples": 7}, {"by_hooks": True}], ids=str)
def test_rows_of_other_settings_are_not_taken_up(
    changed: dict[str, Any], series_of: Make, batch: Batch, tmp_path: Path, reads: Counter[str]
) -> None:
    measure(series_of(), [Loss()], batch, folder=tmp_path, progress=False, **changed)
    reads.clear()
    measure(series_of(), EVERY[:3], batch, folder=tmp_path, progress=False)
    assert reads["Loss"] == 3


def test_what_an_earlier_version_left_serves_the_same_measurement_alone(
    series_of: Make, batch: Batch, tmp_path: Path, reads: Counter[str]
) -> None:
    probes = [Loss(), AttentionTo()]
    measure(series_of(), probes, batch, folder=tmp_path, progress=False)
    (settings,) = tmp_path.glob("*/settings.json")
    write_json(settings, {name: value for name, value in read_json(settings).items() if name != "keys"})
    for part in settings.parent.glob("*.parquet"):
        write_part(part, pd.read_parquet(part))
    reads.clear()
    measure(series_of(), probes, batch, folder=tmp_path, progress=False)
    assert not reads
    table = measure(series_of(), EVERY[:3], batch, folder=tmp_path, progress=False)
    assert reads["Loss"] == 3
    assert_same(table, measure(series_of(), EVERY[:3], batch, progress=False))


def test_files_of_other_programs_that_are_called_settings_are_left_alone(
    series_of: Make, batch: Batch, tmp_path: Path
) -> None:
    settings = tmp_path / "editor" / "settings.json"
    settings.parent.mkdir()
    settings.write_text("[1, 2]  // of an editor")
    table = measure(series_of((3,)), [Loss()], batch, folder=tmp_path, progress=False)
    assert_same(table, measure(series_of((3,)), [Loss()], batch, progress=False))
    assert settings.read_text() == "[1, 2]  // of an editor"


def test_a_damaged_part_is_named(series_of: Make, batch: Batch, tmp_path: Path) -> None:
    measure(series_of(), [Loss()], batch, folder=tmp_path, progress=False)
    part = next(tmp_path.glob("*/step-00000005-*.parquet"))
    part.write_bytes(part.read_bytes()[:-9])
    with pytest.raises(ValueError, match=f"{part.name} .*delete it, and the same call measures its checkpoint again"):
        measure(series_of(), EVERY, batch, folder=tmp_path, progress=False)


def test_weights_that_are_not_finite_are_marked_among_rows_that_are_taken_up(
    series_of: Make, batch: Batch, tmp_path: Path
) -> None:
    whole = series_of()

    def load(step: int) -> dict[str, torch.Tensor]:
        return {name: weight * (torch.nan if step == 5 else 1) for name, weight in whole.load(step).items()}

    series = dataclasses.replace(whole, load=load)
    for probes in ([Loss()], EVERY):
        with pytest.warns(UserWarning, match="step 5 of 'run' holds nan"):
            table = measure(series, probes, batch, folder=tmp_path, progress=False)
        assert table.query("step == 5")["probe"].tolist() == ["Weights"]


IN_A_CELL = """
@dataclasses.dataclass(frozen=True)
class Mine(AbstractProbe):
    def read(self, view):
        return [Reading("batch", torch.full((len(view.batch),), {number}), "number")]
"""


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Callable[..., AbstractProbe]:
    """Make a probe whose class no file holds, as a notebook's, defined anew at each call."""
    notebook = ModuleType("__main__")
    vars(notebook).update(dataclasses=dataclasses, torch=torch, AbstractProbe=AbstractProbe, Reading=Reading)
    monkeypatch.setitem(sys.modules, "__main__", notebook)

    def make(number: str, more: str = "") -> AbstractProbe:
        exec(more + IN_A_CELL.format(number=number), vars(notebook))
        probe: AbstractProbe = notebook.Mine()
        return probe

    return make


@pytest.fixture
def value_of(series_of: Make, batch: Batch, tmp_path: Path) -> Callable[[AbstractProbe], float]:
    """Measure a probe in one and the same folder, and return its number."""

    def value(probe: AbstractProbe) -> float:
        table = measure(series_of((3,)), [probe], batch, folder=tmp_path, progress=False)
        return float(table["value"].item())

    return value


def test_a_probe_of_a_notebooks_cell_that_was_changed_is_measured_anew(
    value_of: Callable[[AbstractProbe], float], cell: Callable[..., AbstractProbe]
) -> None:
    assert [value_of(cell("1.0")), value_of(cell("2.0"))] == [1, 2]


def test_a_function_of_a_notebooks_cell_that_a_probe_calls_counts_too(
    value_of: Callable[[AbstractProbe], float], cell: Callable[..., AbstractProbe]
) -> None:
    probes = (cell("number()", f"def number(): return {number}") for number in (1.0, 2.0))
    assert [value_of(probe) for probe in probes] == [1, 2]


@dataclasses.dataclass(frozen=True)
class Calls(AbstractProbe):
    """A probe with a function among its parameters."""

    function: Callable[[], float]

    def read(self, view: View) -> list[Reading]:
        return [Reading("batch", torch.full((len(view.batch),), self.function()), "number")]


def constant(number: float) -> Callable[[], float]:
    return lambda: number


def test_functions_that_lie_at_one_address_one_after_the_other_are_two(
    value_of: Callable[[AbstractProbe], float],
) -> None:
    numbers = [float(number) for number in range(8)]
    assert [value_of(Calls(constant(number))) for number in numbers] == numbers


class Plain(AbstractProbe):
    """A probe that is no dataclass."""

    def __init__(self, number: float) -> None:
        self.number = number

    def read(self, view: View) -> list[Reading]:
        return [Reading("batch", torch.full((len(view.batch),), self.number), "number")]


def test_a_probe_that_is_no_dataclass_is_told_by_its_attributes(
    value_of: Callable[[AbstractProbe], float], executions: Counter[int | str]
) -> None:
    assert [value_of(Plain(number)) for number in (1.0, 2.0)] == [1, 2]
    executions.clear()
    assert value_of(Plain(1.0)) == 1
    assert not executions


BASE = """
import torch
from dataclasses import dataclass
from stagewise.probe import AbstractProbe, Reading
@dataclass(frozen=True)
class Base(AbstractProbe):
    def read(self, view):
        return [Reading("batch", torch.full((len(view.batch),), {number}), "number")]
"""


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to import from, whose modules are forgotten at the end."""
    folder = tmp_path / "modules"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield folder
    for path in folder.glob("*.py"):
        sys.modules.pop(path.stem, None)


def test_the_code_of_a_base_class_in_another_file_counts_too(
    value_of: Callable[[AbstractProbe], float], modules: Path
) -> None:
    (modules / "own_leaf.py").write_text("from own_base import Base\nclass Leaf(Base): pass\n")
    values = []
    for number in (1.0, 2.0):
        (modules / "own_base.py").write_text(BASE.format(number=number))
        for name in ("own_base", "own_leaf"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        values.append(value_of(importlib.import_module("own_leaf").Leaf()))
    assert values == [1, 2]


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


def assert_same_of_parts(one: pd.DataFrame, other: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(one.drop(columns=ARRAYS), other.drop(columns=ARRAYS), check_exact=True)
    for name in ARRAYS:
        assert one[name].isna().tolist() == other[name].isna().tolist()
        for own, its in zip(one[name].dropna(), other[name].dropna(), strict=True):
            np.testing.assert_array_equal(own, its)


@pytest.mark.parametrize("in_memory", [0, 10**6], ids=["mapped", "in memory"])
def test_a_joined_table_is_that_of_all_rows(in_memory: int, parts: list[Path]) -> None:
    assert_same_of_parts(join(parts, in_memory), tidy(rows(step) for step in range(5)))


def test_a_saved_table_reads_back_as_it_is(parts: list[Path], tmp_path: Path) -> None:
    join_into(parts, tmp_path / "all.parquet")
    assert_same_of_parts(pd.read_parquet(tmp_path / "all.parquet"), join(parts))


def test_a_mapped_table_outlives_its_parts_and_survives_parquet(parts: list[Path], tmp_path: Path) -> None:
    table = join(parts, rows_in_memory=0)
    for part in parts:
        part.unlink()
    table.to_parquet(tmp_path / "again.parquet", index=False)
    assert_same_of_parts(pd.read_parquet(tmp_path / "again.parquet"), table)


def test_a_mapped_table_can_be_changed_like_any_other(parts: list[Path]) -> None:
    table = join(parts, rows_in_memory=0)
    table.loc[table["probe"] == "Map", "value"] = -1.0
    assert set(table.query("probe == 'Map'")["value"]) == {-1.0}
    assert set(join(parts).query("probe == 'Loss'")["value"]) == {1.0, 2.0, 3.0}


def test_the_rows_of_one_probe_are_read_alone(parts: list[Path]) -> None:
    assert_same_of_parts(rows_of(parts, "Loss"), join(parts).query("probe == 'Loss'").reset_index(drop=True))
