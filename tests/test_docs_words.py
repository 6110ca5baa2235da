"""The documents stay short: their words are counted, and so are those of each sentence of tutorials and how-tos."""

from pathlib import Path

import pytest

from tests import docs_words
from tests.docs_words import ROOT

RULED = [page for page in docs_words.pages() if docs_words.name_of(page) not in docs_words.APART]


def test_the_pages_that_are_written_by_hand_have_few_words() -> None:
    counts = docs_words.counts()
    assert {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/stages.md", "docs/commands.md"} <= counts.keys()
    assert not {name for name in counts if name.startswith("docs/records/")}
    assert sum(counts.values()) <= docs_words.MOST_WORDS


MOST = {"docs/stages.md": 600, "docs/statistics.md": 500, "docs/stable.md": 250, "CONTRIBUTING.md": 900}


@pytest.mark.parametrize("name", MOST)
def test_a_page_that_explains_one_thing_stays_short(name: str) -> None:
    assert len((ROOT / name).read_text(encoding="utf8").split()) <= MOST[name]


def test_how_often_it_is_right_is_one_table_and_few_words() -> None:
    text = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf8")
    assert text.count("| --- |") == 1
    assert len([word for word in text.split() if word != "|"]) <= 400


def test_the_changelog_has_few_lines() -> None:
    assert len((ROOT / "CHANGELOG.md").read_text(encoding="utf8").splitlines()) <= 60


@pytest.mark.parametrize("page", docs_words.first_read(), ids=lambda page: page.name)
def test_a_page_for_newcomers_has_short_sentences(page: Path) -> None:
    assert docs_words.long_sentences(page) == []


@pytest.mark.parametrize("page", RULED, ids=lambda page: page.name)
def test_a_sentence_has_a_subject(page: Path) -> None:
    assert docs_words.without_subject(page) == []


def test_sentences_are_those_of_prose_lists_and_tables() -> None:
    prose = '# Of heads\n\nOne `a b`. Two, see [three](x.md) "four."\nFive?\n\n'
    text = f"{prose}- Of six\n\n| Of seven | What eight |\n\n```py\nOf\n```\n"
    assert [*docs_words.sentences(text)] == [
        *("One Code.", 'Two, see [three] "four.', "Five?", "Of six", "Of seven", "What eight |"),
    ]


def test_a_dropped_noun_and_a_long_sentence_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"What is it? What it is.\n**Of** these.\n\nIt {'is ' * 29}.\n\n{'is ' * 29}it.\n")
    assert docs_words.without_subject(page) == ["What it is.", "**Of** these."]
    assert docs_words.long_sentences(page) == [f"It {'is ' * 29}."]
