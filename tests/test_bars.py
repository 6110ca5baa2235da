"""Bars are shown on a terminal alone, and vanish; none where somebody asked for silence."""

import contextvars
import io
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from stagewise.bars import bar, silence
from stagewise.checkpoints.logged_curves import read_log
from stagewise.findings import onsets
from stagewise.findings.onsets import find_onsets
from stagewise.reporting._logged import logged_folders
from stagewise.reporting._seeds import report_seeds
from stagewise.reporting.page import report


class Terminal(io.StringIO):
    """A text that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, *, silent: bool = False) -> str:
    """Return what a search of two curves writes to a stream of errors."""
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(onsets, "LONG", 50)
    curves = np.random.default_rng(0).standard_normal((2, 40))
    table = read_log({"step": np.arange(40), "loss": curves[0], "accuracy": curves[1]})

    def search() -> None:
        silence(silent)
        find_onsets(table)

    contextvars.Context().run(search)
    return stream.getvalue()


def test_a_long_search_shows_how_many_curves_there_are_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, Terminal())
    assert "transitions" in text
    assert "0/2" in text
    assert text.endswith("\r")


def test_nothing_is_shown_elsewhere_or_where_silence_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, io.StringIO()) == ""
    assert shown(monkeypatch, Terminal(), silent=True) == ""


def test_silence_stays_once_asked_for() -> None:
    def asked_twice() -> bool:
        silence(True)
        silence(False)
        return bool(bar("search", 1, "curve").disable)

    assert contextvars.Context().run(asked_twice)


@pytest.mark.each_value
@pytest.mark.parametrize("silent", [False, True])
@pytest.mark.parametrize("runs", [1, 2])
def test_the_drawing_has_a_bar_of_its_own_behind_that_of_the_search(
    silent: bool, runs: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    noise = np.random.default_rng(0).standard_normal(40)
    rows = [{"step": step, "seed": seed, "loss": noise[step] + seed} for seed in range(runs) for step in range(40)]
    pd.DataFrame(rows).to_csv(tmp_path / "log.csv", index=False)
    folders = logged_folders(tmp_path / "log.csv", tmp_path / "run")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setattr(onsets, "LONG", 10)

    def draw() -> None:
        silence(silent)
        report(folders[0]) if runs == 1 else report_seeds(folders, tmp_path / "report")

    contextvars.Context().run(draw)
    text = terminal.getvalue()
    assert ("drawing" in text) != silent
    assert silent or text.rindex("transitions") < text.index("drawing")
