"""PAPERS.md: what `python -m stagewise.papers` writes; its verdicts follow from numbers, its commands and files
exist."""

import functools
import re

import numpy as np
import pytest
import typer.main

from stagewise.papers.__main__ import PAGE, page
from stagewise.papers.commands import COMMANDS, app
from stagewise.papers.emergence import figures as emergence
from stagewise.papers.emergence.figures import FIGURES as EMERGENCE
from stagewise.papers.incremental import command as incremental
from stagewise.papers.incremental.command import FLOWS, OTHERS
from stagewise.papers.incremental.recipes import FIGURES as INCREMENTAL
from stagewise.papers.rows import NUMBERS, ROOT, Entry, entries
from stagewise.papers.scan_and_snap import figures as scan_and_snap
from stagewise.papers.scan_and_snap.figures import FIGURES as SCAN_AND_SNAP
from stagewise.papers.verdict import Verdict

KNOWN = {
    "emergence": {str(figure) for figure in EMERGENCE},
    "incremental": {*INCREMENTAL, *FLOWS, *OTHERS},
    "scan-and-snap": set(SCAN_AND_SNAP),
}
COMMAND = re.compile(r"stagewise run ([\w-]+)((?: --[\w-]+(?: [^-\s]\S*)?)*)")
FIGURE = re.compile(r"--figure (\w+)")


def test_the_page_is_what_the_command_writes() -> None:
    assert PAGE.read_text(encoding="utf8") == page()


@pytest.mark.parametrize(
    ("command", "what", "expected"),
    [
        ("emergence --figure 4", "the same to accuracy .5", Verdict.UNDECIDED),
        ("emergence --figure 4 --grid N_pairs=8,12,16,32", "8 to 32 pairs", Verdict.UNDECIDED),
        ("emergence --figure 13", "exponents", Verdict.UNDECIDED),
        ("incremental --figure 1 --setting paper", "stage ends", Verdict.DIFFERS),
        ("incremental --figure 2 --setting paper", "heads on I(1) at 60", Verdict.DIFFERS),
        ("incremental --figure 5 --setting paper", "best step", Verdict.UNDECIDED),
        ("incremental --figure 6 --setting paper", "stage ends", Verdict.DIFFERS),
        ("incremental --figure 11 --setting paper", "stage ends", Verdict.DIFFERS),
        ("incremental --figure 11 --setting paper", "KL at the end", Verdict.DIFFERS),
        ("incremental --figure 12", "stage ends", Verdict.UNDECIDED),
        ("incremental --figure 17 --setting paper", "the same", Verdict.UNDECIDED),
        ("scan-and-snap --figure 7 --layers 3", "three layers", Verdict.IN_SHAPE),
        ("scan-and-snap --figure 10", "entropy", Verdict.NOT_RUN),
    ],
)
def test_wide_intervals_and_short_runs_agree_with_nothing(command: str, what: str, expected: Verdict) -> None:
    row, *_ = (
        each for each in entries() if each.command.startswith(f"stagewise run {command}") and each.what.startswith(what)
    )
    assert row.verdict is expected


@pytest.mark.parametrize("entry", [each for each in entries() if each.row.shape], ids=lambda entry: entry.what[:60])
def test_orders_and_signs_stand_in_the_numbers(entry: Entry) -> None:
    """In each row with a verdict on them; computed apart from it."""
    kind, *level = entry.row.shape.split()
    values, lows, highs = np.array([(each.value, each.lo, each.hi) for each in entry.row.here]).T
    holds = {
        "rising": lambda: (values[:-1] < values[1:]).all(),
        "falling": lambda: (values[:-1] > values[1:]).all(),
        "above": lambda: lows.min() > float(level[0]),
        "below": lambda: highs.max() < float(level[0]),
        "together": lambda: lows.max() <= highs.min(),
        "within": lambda: (values.clip(lows, highs) == values).all(),
    }[kind]
    complete = all(each.complete for each in entry.row.here)
    assert (entry.verdict is Verdict.IN_SHAPE) == (bool(holds()) and complete)


def test_what_is_in_shape_names_a_test_that_is_there() -> None:
    for entry in entries():
        if entry.verdict is Verdict.IN_SHAPE:
            file, _, name = entry.test.partition("::")
            assert f"\ndef {name}(" in (ROOT / file).read_text(encoding="utf8"), entry.test


def test_every_csv_is_there_and_every_row_has_numbers_or_was_not_run() -> None:
    assert [entry.csv for entry in entries() if not (NUMBERS / f"{entry.csv}.csv").is_file()] == []
    assert all(entry.row.here or entry.verdict is Verdict.NOT_RUN for entry in entries())
    assert all(entry.row.published or entry.row.shape or entry.row.length for entry in entries())


def test_every_figure_of_every_paper_has_a_row() -> None:
    asked = {(paper, figure) for entry in entries() for paper, rest in COMMAND.findall(entry.command)
             for figure in FIGURE.findall(rest)}  # fmt: skip
    missing = [
        f"{paper} {figure}"
        for paper, figures in KNOWN.items()
        for figure in figures - {f for p, f in asked if p == paper}
    ]
    assert missing == []


def test_every_figure_says_what_it_takes_at_the_small_setting() -> None:
    assert set(emergence.COSTS["small"]) == set(EMERGENCE)
    assert {*incremental.COSTS["small"]} == {*incremental.COSTS["paper"], "heads"}
    assert {*incremental.COSTS["small"]} == {*INCREMENTAL, *incremental.OTHERS}
    assert set(scan_and_snap.COSTS) == set(SCAN_AND_SNAP)


@pytest.mark.parametrize("command", sorted({entry.command for entry in entries()}))
def test_every_command_of_a_row_is_one(command: str) -> None:
    match = COMMAND.fullmatch(command)
    assert match is not None
    paper, rest = match.groups()
    assert paper in COMMANDS
    assert set(FIGURE.findall(rest)) <= KNOWN.get(paper, set())
    assert {part for part in rest.split() if part.startswith("--")} <= options(paper)


@functools.cache
def options(paper: str) -> set[str]:
    """The options of a paper's command."""
    group = typer.main.get_group(app)
    return {
        option for parameter in group.commands[paper].params for option in (*parameter.opts, *parameter.secondary_opts)
    }
