"""The words of the documents: how many each page has, and which sentences are too long or hard to read.

python tests/docs_words.py      prints the count of each page, the sum, and every sentence that a rule refuses
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST_WORDS, LONGEST = 20_000, 30
"""Words of all pages that are written by hand, and words of a sentence on a page that a newcomer reads."""

BESIDE = {"index.md": "README.md", "contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
"""Page of the site -> file beside the folder of the documents."""

APART = {"PAPERS.md", "docs/answers.md"}
"""Pages that no rule counts: the record of the papers, and one that a command writes, as those of `docs/records/`."""

NOT_PROSE = re.compile(r"```.*?```|<!--.*?-->|^(?:#|--8<--|:::|!\[|    \S).*?$", re.DOTALL | re.MULTILINE)
PARAGRAPH = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|\n(?=\|)|(?<=\|)\n|(?<=[^\\]) \| ")
END = re.compile(r"(?<=[.!?])[\"')*]*\s+(?=[\"'(*\[]*[A-Z0-9])")


def pages() -> list[Path]:
    """Return every page, those of notebooks too."""
    documents = ROOT / "docs"
    return [*sorted(ROOT.glob("*.md")), *sorted(documents.rglob("*.md")), *sorted(documents.rglob("*.ipynb"))]


def name_of(page: Path) -> str:
    """Return the place of a page in the repository."""
    return page.relative_to(ROOT).as_posix()


def by_hand(page: Path) -> bool:
    """Tell whether a page counts: it is no record, no notebook, and not written by a command."""
    name = name_of(page)
    return page.suffix == ".md" and name not in APART and not name.startswith("docs/records/")


def first_read() -> list[Path]:
    """Return README.md and the pages on the shelves of tutorials and how-tos in the menu of the site."""
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf8")
    shelves = re.findall(r"^  - (?:Tutorials|How-to):\n((?:      - .*\n)+)", menu, re.MULTILINE)
    assert len(shelves) == 2
    names = ["index.md", *re.findall(r"- (\S+\.md)", "".join(shelves))]
    files = (ROOT / BESIDE[name] if name in BESIDE else ROOT / "docs" / name for name in names)
    return [file if file.exists() else file.with_suffix(".ipynb") for file in files]


def text_of(page: Path) -> str:
    """Return the text of a page, or that between the cells of a notebook."""
    text = page.read_text(encoding="utf8")
    if page.suffix == ".md":
        return text
    cells = json.loads(text)["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a page's prose and of its tables; a code span or a link's address is no word more."""
    prose = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]+`", "Code", NOT_PROSE.sub("\n\n", text)))
    for paragraph in PARAGRAPH.split(prose):
        words = re.sub(r"^[\s|]*(?:(?:[-*]|\d+\.) )?", "", " ".join(paragraph.split()))
        yield from (sentence for sentence in END.split(words) if sentence.strip("| -"))


def bare(sentence: str) -> str:
    """Return a sentence without the signs of bold text, and those of quoted text in front of it."""
    return sentence.replace("*", "").lstrip("_\"'([")


def long_sentences(page: Path) -> list[str]:
    """Return the sentences with more words than a newcomer reads at once."""
    return [sentence for sentence in sentences(text_of(page)) if len(sentence.split()) > LONGEST]


def without_subject(page: Path) -> list[str]:
    """Return the sentences that begin with "Of", or with "What" and are no question."""
    begun = [(sentence, bare(sentence)) for sentence in sentences(text_of(page))]
    return [
        sentence
        for sentence, start in begun
        if start.startswith("Of ") or (start.startswith("What ") and not sentence.rstrip("*_\"') ").endswith("?"))
    ]


def counts() -> dict[str, int]:
    """Return how many words each page has that is written by hand."""
    return {name_of(page): len(text_of(page).split()) for page in pages() if by_hand(page)}


def main() -> None:
    """Print the counts, and what the rules refuse."""
    for name, count in sorted(counts().items(), key=lambda item: item[1]):
        print(f"{count:7,} {name}")
    print(f"{sum(counts().values()):7,} of {MOST_WORDS:,}")
    for page in first_read():
        for sentence in long_sentences(page):
            print(f"{name_of(page)}, {len(sentence.split())} words: {sentence}")
    for page in pages():
        for sentence in without_subject(page):
            print(f"{name_of(page)}, begins with a dropped noun: {sentence}")


if __name__ == "__main__":
    main()
