"""Docstrings for the site: their examples are code, which Markdown would take for quotations."""

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^( *)>>> .*(?:\n(?! *$).*)*", re.MULTILINE)


class Doctests(griffe.Extension):
    """Put the examples of docstrings into fences."""

    def on_object(self, *, obj: Any, **known: Any) -> None:
        """Change the docstring of whatever has one."""
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
