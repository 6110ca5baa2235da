"""The pages of the site that are no files of `docs/`: README.md and others beside it, and the notebooks."""

import json
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


def notebook_page(path: Path) -> str:
    """Return a notebook with its outputs as Markdown."""
    cells = json.loads(path.read_text(encoding="utf8"))["cells"]
    return "\n\n".join([*map(_cell, cells), f"[The notebook]({path.name})"])


def _cell(cell: dict[str, Any]) -> str:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source
    return "\n\n".join([f"```python\n{source}\n```", *map(_output, cell["outputs"])])


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        return f"![what the cell draws](data:image/png;base64,{''.join(data['image/png']).strip()})"
    text = "".join(output.get("text", data.get("text/plain", "")))
    return f"```text\n{text.rstrip()}\n```"


def on_files(files: Any, config: Any) -> Any:
    """Add the pages."""
    from mkdocs.structure.files import File

    for source, page in BESIDE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf8")))
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=notebook_page(path)))
    return files


def on_page_markdown(markdown: str, **known: Any) -> str:
    """Return the text with links to the place of each file in the site."""
    markdown = re.sub(r"\]\((?:\.\./)?docs/", "](", markdown)
    for source, page in BESIDE.items():
        markdown = re.sub(rf"\]\((?:\.\./)?{re.escape(source)}", f"]({page}", markdown)
    return re.sub(r"\]\((notebooks/[\w-]+)\.ipynb\)", r"](\1.md)", markdown)
