"""Captions and paragraphs of the pages, which `wording.toml` holds by section."""

import functools
import tomllib

from stagewise.reporting._html import packaged


@functools.cache
def texts() -> dict[str, dict[str, str]]:
    """Return every text by its section and its name, each in one line."""
    sections = tomllib.loads(packaged("wording.toml"))
    return {section: {name: " ".join(text.split()) for name, text in of.items()} for section, of in sections.items()}


def wording(section: str, *names: str, **facts: object) -> str:
    """Return texts of a section one behind the other, as HTML, with facts in their places."""
    return " ".join(texts()[section][name] for name in names).format(**facts)
