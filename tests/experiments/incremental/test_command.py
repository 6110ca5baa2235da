"""A figure in one call, and as a script with arguments."""

import sys
from pathlib import Path

import pytest

from stagewise.experiments.incremental.command import make, script


def test_a_figure_is_written_where_it_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = make("10", tmp_path / "new")
    assert path == tmp_path / "new" / "figure-10.png"
    assert path.read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out.splitlines()[-1] == str(path)


def test_a_script_takes_its_folder_from_the_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["figure.py", str(tmp_path / "mine")])
    assert script("10").parent == tmp_path / "mine"


def test_an_unknown_setting_makes_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="in setting 'huge'"):
        make("1", tmp_path / "none", "huge", progress=False)
    assert not (tmp_path / "none").exists()
