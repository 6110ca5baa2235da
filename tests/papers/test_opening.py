"""The opening of PAPERS.md: short, its numbers those of the rows, its words those of their verdicts."""

import pandas as pd
import pytest

from stagewise.papers.__main__ import PAGE
from stagewise.papers.opening import GROUPS, opening
from stagewise.papers.rows import NUMBERS, entries, sections
from stagewise.papers.verdict import Verdict, numbers_in

WORDS = 600


def test_the_page_opens_with_it_in_at_most_600_words() -> None:
    top, _, _ = PAGE.read_text(encoding="utf8").partition("\n## ")
    assert opening() in top
    assert len(top.split()) <= WORDS


@pytest.mark.parametrize("name", sections())
def test_each_paper_has_three_numbers_and_says_what_holds_and_what_does_not(name: str) -> None:
    title = sections()[name]["title"].partition(":")[0]
    (statements,) = [part for part in opening().split("\n\n") if part.startswith(f"**{title}** ")]
    assert all(f"*{word}*: " in statements for word in GROUPS)
    assert len([entry for entry in entries() if entry.paper == name and entry.key]) == 3


def test_its_numbers_are_those_of_the_rows_files() -> None:
    """Every number of a line stands in the CSV of the row that the line names."""
    lines = dict(line.split(" | ", 1) for line in opening().splitlines() if line.count(" | ") == 3)
    for entry in (each for each in entries() if each.key):
        published, here, word = lines[entry.key].split(" | ")
        table = pd.read_csv(NUMBERS / f"{entry.csv}.csv", dtype=str, keep_default_na=False)
        known = {each.text for cell in table[["ours", "interval"]].to_numpy().flat for each in numbers_in(cell)}
        values = [each.text for each in entry.row.here]
        assert here == "; ".join(values)
        assert word == entry.verdict
        assert {each.text for text in published.split("; ") for each in numbers_in(text)}
        if not any("[" in value for value in values):
            assert {each.text for each in numbers_in(here)} <= known


def test_a_statement_stands_under_the_verdict_of_its_row() -> None:
    assert {verdict for verdicts in GROUPS.values() for verdict in verdicts} == {*Verdict}
    for entry in (each for each in entries() if each.main):
        ends = [f" {entry.main}{end}" for end in (";", ".", " (smaller)")]
        (line,) = [line for line in opening().splitlines() if any(end in line for end in ends)]
        before, _, _ = line.partition(entry.main)
        last = max(GROUPS, key=lambda word: before.rfind(f"*{word}*"))
        assert entry.verdict in GROUPS[last], entry.main
