"""The pages of the site that lie beside `docs/`: README.md and others, with their links as they are from here."""

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BESIDE = {
    "README.md": "index.md",
    "PAPERS.md": "papers.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""File beside the folder -> page."""


def on_files(files: Any, config: Any) -> Any:
    """Add the pages."""
    from mkdocs.structure.files import File

    for source, page in BESIDE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf8")))
    return files


def on_page_markdown(markdown: str, **known: Any) -> str:
    """Return the text with links to the place of each file in the site."""
    markdown = re.sub(r"\]\((?:\.\./)?docs/", "](", markdown)
    for source, page in BESIDE.items():
        markdown = re.sub(rf"\]\((?:\.\./)?{re.escape(source)}", f"]({page}", markdown)
    return markdown
