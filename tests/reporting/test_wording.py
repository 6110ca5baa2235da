"""The texts of the pages: all are used, and none is missing."""

import ast
from pathlib import Path

import pytest

from stagewise import reporting
from stagewise.reporting._wording import texts, wording

CODE = "\n".join(path.read_text(encoding="utf8") for path in Path(reporting.__path__[0]).rglob("*.py"))
STRINGS = {node.value for node in ast.walk(ast.parse(CODE)) if isinstance(node, ast.Constant)}
"""All that stands in the code of the pages as a string."""

BY_NAME = {("further", "LinearCKA"), ("further", "PrincipalAngles"), ("generic", "up"), ("generic", "down")}
"""Texts that are found by what a table says: its probes, which way is progress."""


def test_every_text_is_of_a_page() -> None:
    names = {(section, name) for section, of in texts().items() for name in of}
    assert len(names) > 30
    assert {(section, name) for section, name in names - BY_NAME if not {section, name} <= STRINGS} == set()


def test_texts_stand_one_behind_the_other_on_one_line() -> None:
    both = wording("stages", "nested", "ribbons")
    assert both == f"{wording('stages', 'nested')} {wording('stages', 'ribbons')}"
    assert "\n" not in both


def test_a_fact_stands_in_its_place() -> None:
    assert "replaced (mean ablation)." in wording("ablation", "ablation", kind="mean")
    with pytest.raises(KeyError, match="kind"):
        wording("ablation", "ablation")
