"""Warn of sentences that are hard to read, in the documents and in docstrings: `python -m evidence.prose`.

A sentence has at most thirty words, and a subject: it begins neither with "Of" nor, unless it asks, with "What".
"""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
LONGEST = 30
"""Words of a sentence."""

WRITTEN_BY_COMMANDS = ("PAPERS.md", "docs/answers.md", "docs/records.md", "docs/records/")
NOT_PROSE = re.compile(r"```.*?```|<!--.*?-->|^(?:#|--8<--|:::|!\[|    \S|>>>).*?$", re.DOTALL | re.MULTILINE)
PARAGRAPH = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|\n(?=\|)|(?<=\|)\n|(?<=[^\\]) \| |\n(?= *[\w`*, ]+: )")
END = re.compile(r"(?<=[.!?])[\"')*]*\s+(?=[\"'(*\[]*[A-Z0-9])")
NO_SUBJECT = re.compile(r"Of |What (?!.*\?\W*$)")


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of prose, lists and tables; a code span or a link's address is no word more."""
    prose = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]+`", "Code", NOT_PROSE.sub("\n\n", text)))
    for paragraph in PARAGRAPH.split(prose):
        words = re.sub(r"^[\s|]*(?:(?:[-*]|\d+\.) )?", "", " ".join(paragraph.split()))
        yield from (sentence for sentence in END.split(words) if sentence.strip("| -"))


def faults(text: str) -> Iterator[str]:
    """Yield each sentence that is too long or has no subject, behind the reason."""
    for sentence in sentences(text):
        if (count := len(sentence.split())) > LONGEST:
            yield f"{count} words: {sentence}"
        if NO_SUBJECT.match(sentence.replace("*", "").lstrip("_\"'([")):
            yield f"no subject: {sentence}"


def texts() -> Iterator[tuple[Path, str]]:
    """Yield the prose of every page, notebook and source file that a person writes."""
    for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]):
        if not page.relative_to(ROOT).as_posix().startswith(WRITTEN_BY_COMMANDS):
            yield page, page.read_text(encoding="utf8")
    for notebook in sorted(ROOT.glob("docs/**/*.ipynb")):
        cells = json.loads(notebook.read_text(encoding="utf8"))["cells"]
        yield notebook, "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    for source in sorted(
        path for room in ("stagewise", "probes", "tasks", "papers") for path in ROOT.glob(f"{room}/**/*.py")
    ):
        yield source, "\n\n".join(docstrings(source.read_text(encoding="utf8")))


def docstrings(text: str) -> Iterator[str]:
    """Yield every string that stands alone: of modules, classes, functions and variables."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


if __name__ == "__main__":
    for path, text in texts():
        for fault in faults(text):
            print(f"{path.relative_to(ROOT)}: {fault}")
