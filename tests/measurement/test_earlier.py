"""Rows that lie on disk are taken up where nothing differs that decides them, and nowhere else."""

import dataclasses
import importlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

from stagewise.checkpoints.series import CheckpointSeries
from stagewise.measurement.engine import measure
from stagewise.probe import AbstractProbe, Reading, View
from stagewise.task import Batch

Make = Callable[..., CheckpointSeries]

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


def test_functions_that_lie_at_one_address_one_after_the_other_are_two(
    value_of: Callable[[AbstractProbe], float],
) -> None:
    numbers = [float(number) for number in range(8)]
    assert [value_of(Calls(lambda number=number: number)) for number in numbers] == numbers


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
