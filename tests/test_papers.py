"""PAPERS.md: every figure has its row, every row its command, every quoted number stands in what the command wrote."""

import functools
import re
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest
import typer.main

from stagewise.cli._papers import COMMANDS
from stagewise.cli.app import app
from stagewise.experiments.emergence import figures as emergence
from stagewise.experiments.emergence.figures import FIGURES as EMERGENCE
from stagewise.experiments.incremental import command as incremental
from stagewise.experiments.incremental.command import FLOWS
from stagewise.experiments.incremental.recipes import FIGURES as INCREMENTAL
from stagewise.experiments.scan_and_snap import figures as scan_and_snap
from stagewise.experiments.scan_and_snap.figures import FIGURES as SCAN_AND_SNAP

ROOT = Path(__file__).parents[1]
NUMBERS = ROOT / "docs" / "numbers"
KNOWN = {
    "emergence": {str(figure) for figure in EMERGENCE},
    "incremental": {*INCREMENTAL, *FLOWS},
    "scan-and-snap": set(SCAN_AND_SNAP),
}
COMMAND = re.compile(r"`stagewise run ([\w-]+)((?: --[\w-]+(?: [^-`\s]\S*)?)*)`")
FIGURE = re.compile(r"--figure (\w+)")
GRID = re.compile(r"--grid (?!seed=)")
BATCH = re.compile(r"--grid batch=([\d,]+)")
LAYERS = re.compile(r"--layers (\d+)")
NUMBER = re.compile(r"(?<![\w.])-?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?")
WITH_INTERVAL = re.compile(rf"({NUMBER.pattern})(?: (?:in )?[\[(])({NUMBER.pattern}), \+?({NUMBER.pattern})\]")


def rows() -> list[list[str]]:
    """The cells of every row of a table with a command in its last one."""
    lines = (ROOT / "PAPERS.md").read_text(encoding="utf8").splitlines()
    of_lines = ([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines)
    return [cells for cells in of_lines if cells and COMMAND.search(cells[-1])]


ROWS = rows()


def test_every_figure_of_every_paper_has_a_row() -> None:
    asked = {(paper, figure) for cells in ROWS for paper, rest in COMMAND.findall(cells[-1])
             for figure in FIGURE.findall(rest)}  # fmt: skip
    missing = [
        f"{paper} {figure}"
        for paper, figures in KNOWN.items()
        for figure in figures - {f for p, f in asked if p == paper}
    ]
    assert missing == []


def test_every_figure_says_what_it_takes_at_the_small_setting() -> None:
    assert set(emergence.COSTS["small"]) == set(EMERGENCE)
    assert {*incremental.COSTS["small"]} == {*incremental.COSTS["paper"], "heads"} == set(INCREMENTAL)
    assert set(scan_and_snap.COSTS) == set(SCAN_AND_SNAP)


@pytest.mark.parametrize("cells", ROWS, ids=lambda cells: " ".join(cells[:2])[:60])
def test_every_command_of_a_row_is_one(cells: list[str]) -> None:
    for paper, rest in COMMAND.findall(cells[-1]):
        figures = FIGURE.findall(rest)
        assert set(figures) <= KNOWN.get(paper, set())
        if paper in COMMANDS:
            assert {part for part in rest.split() if part.startswith("--")} <= options(paper)


@functools.cache
def options(paper: str) -> set[str]:
    """The options of a paper's command."""
    run = typer.main.get_command(app).commands["run"]  # type: ignore[attr-defined]
    return {
        option for parameter in run.commands[paper].params for option in (*parameter.opts, *parameter.secondary_opts)
    }


class Line(NamedTuple):
    """A line of a CSV: the numbers of its cells."""

    quantity: list[str]
    ours: list[str]
    interval: list[str]
    remark: list[str]


def written(cell: str) -> list[Line]:
    """The lines of what the commands of a row wrote."""
    lines = []
    for paper, rest in COMMAND.findall(cell):
        size = "".join(f"-layers-{layers}" for layers in LAYERS.findall(rest)) + "-paper" * ("--setting paper" in rest)
        size += "-grid" * bool(GRID.search(rest))
        size += "".join(f"-batch-{batches.replace(',', '-')}" for batches in BATCH.findall(rest))
        for name in [f"{paper}/figure-{figure}{size}" for figure in FIGURE.findall(rest)] or [paper]:
            table = pd.read_csv(NUMBERS / f"{name}.csv", dtype=str, keep_default_na=False)
            lines += [Line(*map(NUMBER.findall, row)) for row in table[list(Line._fields)].to_numpy().tolist()]
    return lines


def stand_in(part: list[str], whole: list[str]) -> bool:
    """Whether numbers stand among others, all of them and in their order."""
    rest = iter(map(float, whole))
    return all(any(number == other for other in rest) for number in map(float, part))


@pytest.mark.parametrize("cells", ROWS, ids=lambda cells: " ".join(cells[:2])[:60])
def test_every_number_of_a_row_stands_in_what_its_command_wrote(cells: list[str]) -> None:
    """In a line that the row quotes: all numbers that it gives as ours, or in its remark, stand in the row in order."""
    quoted = NUMBER.findall(cells[3])
    if not quoted:
        assert cells[3] == "\N{EN DASH}"
        return
    known: set[float] = set()
    for line in written(cells[-1]):
        if any(part and stand_in(part, quoted) for part in (line.ours, line.remark)):
            known |= {float(each) for part in line for each in part}
    assert [number for number in quoted if float(number) not in known] == []


@pytest.mark.parametrize("cells", ROWS, ids=lambda cells: " ".join(cells[:2])[:60])
def test_an_interval_stands_beside_its_number(cells: list[str]) -> None:
    lines = written(cells[-1])
    for value, *interval in WITH_INTERVAL.findall(cells[3]):
        at, within = float(value), list(map(float, interval))
        assert any(
            at in map(float, line.ours) and (list(map(float, line.interval)) == within or stand_in(interval, line.ours))
            for line in lines
        ), f"{value} {interval}"


def test_a_row_without_numbers_has_no_verdict() -> None:
    unjudged = ("not run here", "the flow is solved")
    judged = [cells[:2] for cells in ROWS if cells[3] == "\N{EN DASH}" and not cells[4].startswith(unjudged)]
    assert judged == []
