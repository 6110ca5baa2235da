"""What a notebook shows of a report: the page itself."""

import html
from pathlib import Path

INLINE = 'style="width: 100%; height: 40em; border: 0"'


class Page(type(Path())):  # type: ignore[misc]
    """The path of an HTML file; a notebook that it is the last value of shows the file itself.

    >>> Page("report.html") == Path("report.html")
    True
    """

    def _repr_html_(self) -> str | None:
        return inline(self) if self.is_file() else None


def inline(page: Path) -> str:
    """Return an HTML page as an element of another one, whole: its scripts run, and it needs no other file."""
    text = html.escape(page.read_text(encoding="utf8"), quote=True)
    return f'<iframe srcdoc="{text}" {INLINE}></iframe>'
