"""Pieces of pages: what a notebook shows of one, and texts, all of which are used, and none is missing."""

import ast
import base64
import gzip
import html
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from stagewise import reporting
from stagewise.findings.stages import find_stages
from stagewise.reporting._html import Page, packed, texts, wording


def test_a_page_is_a_path_and_shows_its_file(tmp_path: Path) -> None:
    text = '<!doctype html><script>let a = "b" && 1 < 2;</script>'
    (tmp_path / "page.html").write_text(text)
    page = Page(tmp_path / "page.html")
    assert page == tmp_path / "page.html"
    assert page.read_text() == text
    assert str(page) == str(tmp_path / "page.html")
    shown = page._repr_html_()
    assert shown is not None
    inside = shown.split('srcdoc="')[1].split('"')[0]
    assert html.unescape(inside) == text


def test_what_is_no_file_is_shown_as_a_path_only(tmp_path: Path) -> None:
    assert Page(tmp_path / "absent.html")._repr_html_() is None
    assert Page(tmp_path / "page.html").parent._repr_html_() is None


def test_stages_are_a_list_of_their_sentences() -> None:
    steps = np.arange(0, 100, 10)
    table = pd.DataFrame({"step": steps, "value": 1.0, "run": "<run>", "probe": "Loss", "quantity": "cross_entropy"})
    shown = find_stages(table)._repr_html_()
    assert shown.count("<li>") == 4
    assert "no onset in 1 score" in shown


CODE = "\n".join(path.read_text(encoding="utf8") for path in Path(reporting.__path__[0]).rglob("*.py"))
STRINGS = {node.value for node in ast.walk(ast.parse(CODE)) if isinstance(node, ast.Constant)}
"""All that stands in the code of the pages as a string."""

BY_NAME = {("generic", "up"), ("generic", "down"), *(("probes", name) for name in texts()["probes"])}
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


def test_packed_text_is_compressed_letters() -> None:
    assert gzip.decompress(base64.b64decode(packed(b"steps"))) == b"steps"
