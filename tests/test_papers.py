"""PAPERS.md: what `python -m papers` writes; its verdicts follow from numbers, its commands and files exist."""

import functools
import re
from dataclasses import replace

import numpy as np
import pytest
import typer.main

from papers.__main__ import PAGE, page
from papers.rows import NUMBERS, ROOT, Entry, entries
from papers.verdict import Number, Row, Verdict, exactly, numbers_in, verdict
from stagewise.cli.app import app
from stagewise.experiments._commands import COMMANDS
from stagewise.experiments.emergence import figures as emergence
from stagewise.experiments.emergence.figures import FIGURES as EMERGENCE
from stagewise.experiments.incremental import command as incremental
from stagewise.experiments.incremental.command import FLOWS
from stagewise.experiments.incremental.recipes import FIGURES as INCREMENTAL
from stagewise.experiments.scan_and_snap import figures as scan_and_snap
from stagewise.experiments.scan_and_snap.figures import FIGURES as SCAN_AND_SNAP

KNOWN = {
    "emergence": {str(figure) for figure in EMERGENCE},
    "incremental": {*INCREMENTAL, *FLOWS},
    "scan-and-snap": set(SCAN_AND_SNAP),
}
COMMAND = re.compile(r"stagewise run ([\w-]+)((?: --[\w-]+(?: [^-\s]\S*)?)*)")
FIGURE = re.compile(r"--figure (\w+)")
FIVE = Number("5 [4, 6]", 5.0, 4.0, 6.0)
EXACT = exactly(5.0, "5")


def test_the_page_is_what_the_command_writes() -> None:
    assert PAGE.read_text(encoding="utf8") == page()


def test_a_page_is_short() -> None:
    assert len(page().split()) <= 4500


@pytest.mark.parametrize(
    ("here", "published", "null", "expected"),
    [
        (FIVE, "5.5", 0, Verdict.UNDECIDED),
        (FIVE, "6", 0, Verdict.AGREES),
        (FIVE, "6", 1, Verdict.UNDECIDED),
        (FIVE, "7", 0, Verdict.DIFFERS),
        (replace(FIVE, complete=False), "6", 0, Verdict.UNDECIDED),
        (EXACT, "5", 0, Verdict.AGREES),
        (EXACT, "6", 0, Verdict.DIFFERS),
        (EXACT, "4.7 to 5.1", 0, Verdict.AGREES),
        (EXACT, "5.04", 0, Verdict.DIFFERS),
        (numbers_in("5.1")[0], "5.14", 0, Verdict.AGREES),
        (numbers_in("never")[0], "5", 0, Verdict.DIFFERS),
        (numbers_in("never")[0], "never", 0, Verdict.AGREES),
    ],
)
def test_a_published_number_agrees_within_a_narrow_interval(
    here: Number, published: str, null: int, expected: Verdict
) -> None:
    assert verdict(Row((here,), tuple(numbers_in(published)), (float(null),))) is expected


@pytest.mark.parametrize(
    ("shape", "text", "expected"),
    [
        ("rising", "1, 2.5, never", Verdict.IN_SHAPE),
        ("rising", "1, 2, 2", Verdict.DIFFERS),
        ("falling", "3, 1.0", Verdict.IN_SHAPE),
        ("above 1", "1.1 to 3, 2", Verdict.IN_SHAPE),
        ("above 1", "0.9 to 3, 2", Verdict.UNDECIDED),
        ("above 1", "0.5 to 0.9, 2", Verdict.DIFFERS),
        ("below 0", "-2 to -1", Verdict.IN_SHAPE),
        ("below 0", "-2 to 1", Verdict.UNDECIDED),
        ("together", "1 to 3, 2 to 4", Verdict.IN_SHAPE),
        ("together", "1 to 3, 4 to 5", Verdict.DIFFERS),
        ("within", "1 to 3", Verdict.IN_SHAPE),
    ],
)
def test_a_shape_is_an_order_or_a_sign(shape: str, text: str, expected: Verdict) -> None:
    assert verdict(Row(tuple(numbers_in(text)), shape=shape)) is expected


def test_the_worst_of_several_numbers_counts_and_a_shorter_run_was_not_run() -> None:
    row = Row((FIVE, EXACT, EXACT), tuple(numbers_in("5.5, 6, 5")), (0.0, 0.0, 0.0))
    assert verdict(row) is Verdict.DIFFERS
    assert verdict(replace(row, length=(300, 1500))) is Verdict.NOT_RUN
    assert verdict(replace(row, length=(1500, 1500))) is Verdict.DIFFERS


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


def test_a_note_is_short() -> None:
    assert [entry.note for entry in entries() if len(entry.note.split()) > 25] == []


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
    assert {*incremental.COSTS["small"]} == {*INCREMENTAL, incremental.GENERALISATION}
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
    run = typer.main.get_command(app).commands["run"]  # type: ignore[attr-defined]
    return {
        option for parameter in run.commands[paper].params for option in (*parameter.opts, *parameter.secondary_opts)
    }
