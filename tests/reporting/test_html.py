"""What a notebook shows: the report inline, stages as a list, a path where there is no file."""

import html
from pathlib import Path

import numpy as np
import pandas as pd

from stagewise.findings.stages import find_stages
from stagewise.reporting._html import Page


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
