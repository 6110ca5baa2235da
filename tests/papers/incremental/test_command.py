"""A figure in one call, and all of them, one after the other."""

from pathlib import Path

import pandas as pd
import pytest

from stagewise.papers.incremental import command
from stagewise.papers.incremental.recipes import FIGURES


def test_a_figure_has_its_name_in_small_letters_too_and_an_unknown_one_names_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []

    def run_figure(figure: str, *_: object, **__: object) -> None:
        asked.append(figure)
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run_figure", run_figure)
    with pytest.raises(KeyboardInterrupt):
        command.make("4l", tmp_path)
    assert asked == ["4L"]
    with pytest.raises(ValueError, match="no figure 4 here; there are 1, 2, 3, 4L, 4R, 5, "):
        command.make("4", tmp_path)


@pytest.mark.slow
def test_a_figure_is_written_where_it_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = command.make("10", tmp_path / "new")
    assert path == tmp_path / "new" / "figure-10.png"
    assert path.read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out.splitlines()[-1] == f"figure: {path}"
    numbers = pd.read_csv(path.with_suffix(".csv"), dtype=str)
    assert (numbers["published"].iloc[0], numbers["ours"].iloc[0]) == ("6.12", "6.121")


def test_an_unknown_setting_makes_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="in setting 'huge'"):
        command.make("1", tmp_path / "none", "huge", progress=False)
    assert not (tmp_path / "none").exists()


def test_all_figures_are_made_once_and_long_ones_last(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def make(figure: str, folder: Path | None, setting: str, **_: object) -> Path:
        asked.append((figure, setting))
        return Path(figure)

    monkeypatch.setattr(command, "make", make)
    pictures = command.make_all("paper")
    assert sorted(map(str, pictures)) == sorted([*command.FLOWS, *FIGURES])
    assert {setting for _, setting in asked} == {"paper"}
    assert [figure for figure, _ in asked][-2:] == ["18", "19"]
