"""Pieces of pages: texts of `wording.toml`, text that a page holds packed, and what a notebook shows of a page."""

import base64
import functools
import gzip
import html
import importlib.resources
import json
import tomllib
from pathlib import Path

from stagewise.checkpoints.run_folder import write

INLINE = 'style="width: 100%; height: 40em; border: 0"'


class Page(type(Path())):  # type: ignore[misc]
    """The path of an HTML file; a notebook that it is the last value of shows the file itself."""

    def _repr_html_(self) -> str | None:
        return inline(self) if self.is_file() else None


class AbstractShown:
    """A result with a page, which a notebook shows."""

    report: Path

    def _repr_html_(self) -> str:
        return inline(self.report)


def packaged(name: str) -> str:
    """Return the text of a file that lies beside this code."""
    return (importlib.resources.files("stagewise.reporting") / name).read_text(encoding="utf8")


def write_text(path: Path, text: str) -> Path:
    """Write a text file, complete or not at all, and return its path."""
    return write(path, lambda partial: partial.write_text(text, encoding="utf8"))


def packed(content: bytes) -> str:
    """Return bytes as `report.js` unpacks them: compressed, in letters that end no attribute and no element."""
    return base64.b64encode(gzip.compress(content, mtime=0)).decode()


def packed_script(identifier: str, content: bytes) -> str:
    """Return bytes as an element that runs nothing and shows nothing, for the page's own script to unpack."""
    return f'<script type="application/gzip" id="{html.escape(identifier)}">{packed(content)}</script>'


def json_script(identifier: str, data: object) -> str:
    """Return data as a script element of JSON that no text in it can end."""
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="{html.escape(identifier)}">{text}</script>'


def inline(page: Path) -> str:
    """Return an HTML page as an element of another one, whole: its scripts run, and it needs no other file."""
    text = html.escape(page.read_text(encoding="utf8"), quote=True)
    return f'<iframe srcdoc="{text}" {INLINE}></iframe>'


@functools.cache
def texts() -> dict[str, dict[str, str]]:
    """Return every text by its section and its name, each in one line."""
    sections = tomllib.loads(packaged("wording.toml"))
    return {section: {name: " ".join(text.split()) for name, text in of.items()} for section, of in sections.items()}


def wording(section: str, *names: str, **facts: object) -> str:
    """Return texts of a section one behind the other, as HTML, with facts in their places."""
    return " ".join(texts()[section][name] for name in names).format(**facts)
