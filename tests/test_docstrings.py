"""Docstrings name their nouns: no sentence drops its subject, or the object of its verb."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.docs_words import END, ROOT

ROOMS = sorted({path.parent for path in (ROOT / "stagewise").glob("*/*.py") if not path.parent.is_symlink()})
FILES = {room.name: sorted(room.rglob("*.py")) for room in [*ROOMS, ROOT / "probes", ROOT / "tasks"]}
FILES["stagewise"] = sorted((ROOT / "stagewise").glob("*.py"))

EXAMPLES = re.compile(r"^ *>>> .*(?:\n(?! *$).*)*", re.MULTILINE)
PARTS = re.compile(r"\n\s*\n|\n(?= *(?:- |[\w`*, ]+: ))")
ENTRY = re.compile(r"^(?:- |[\w`*, ]+: (?=[A-Z]))")
DROPPED = {
    "begins with Of": re.compile(r"Of "),
    "has What as its subject": re.compile(r"What (?!.*\?\W*$)"),
    "has a verb whose object is no noun": re.compile(r"(?!In |From |By )[A-Z][a-z]+ what "),
}


def docstrings(text: str) -> Iterator[str]:
    """Yield every string that stands alone: of modules, classes, functions and variables."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def sentences(docstring: str) -> Iterator[str]:
    for part in PARTS.split(EXAMPLES.sub("\n\n", docstring)):
        words = " ".join(part.split())
        for sentence in END.split(words):
            yield sentence
            yield ENTRY.sub("", sentence)


def dropped(text: str) -> dict[str, str]:
    found = {sentence for docstring in docstrings(text) for sentence in sentences(docstring)}
    return {sentence: why for sentence in sorted(found) for why, fault in DROPPED.items() if fault.match(sentence)}


@pytest.mark.parametrize("room", FILES)
def test_a_sentence_of_a_docstring_has_its_nouns(room: str) -> None:
    assert FILES[room]
    faults = {str(path.relative_to(ROOT)): dropped(path.read_text(encoding="utf8")) for path in FILES[room]}
    assert {name: fault for name, fault in faults.items() if fault} == {}


def test_dropped_nouns_are_found_and_questions_are_none() -> None:
    text = '"""Say what began. What is it? It is.\n\nArgs:\n    a: Of heads. What ends.\n"""\nx = 1\n"""Of x."""'
    assert dropped(text).keys() == {"Say what began.", "Of heads.", "What ends.", "Of x."}
