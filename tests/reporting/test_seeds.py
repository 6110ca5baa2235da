"""The report on seeds: their stages side by side, what recurs, heads by their roles."""

import html
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest

from stagewise.checkpoints._table_file import read_json
from stagewise.checkpoints.run_folder import TABLE
from stagewise.reporting._seeds import report_seeds
from stagewise.saved_findings import REPLICATES
from stagewise.words import CAVEAT

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def folders_of_seeds(one_onset: pd.DataFrame, tmp_path: Path) -> list[Path]:
    """Three seeds; in the second one the two heads have each other's indices."""
    places = []
    for seed in range(3):
        path = tmp_path / f"seed-{seed}" / TABLE
        path.parent.mkdir(parents=True)
        heads = 1 - one_onset["head"] if seed == 1 else one_onset["head"]
        name = HOSTILE if seed == 2 else f"seed-{seed}"
        one_onset.assign(run=name, head=heads, nested=0).to_parquet(path)
        places.append(path.parents[1])
    return places


@pytest.mark.usefixtures("undrawn")
def test_seeds_are_side_by_side_with_their_spread(folders_of_seeds: list[Path], tmp_path: Path) -> None:
    found = report_seeds(folders_of_seeds, tmp_path / "out")
    assert [len(one) for one in found.stages] == [2, 2, 2]
    page = found.report.read_text(encoding="utf8")
    for title in ("What recurs over seeds", "The stages of each seed", "Heads by their roles"):
        assert f">{title}</h2>" in page
    assert "in 3 of 3 seeds" in page
    assert HOSTILE not in page
    names = re.findall(r'<td[^>]* data-column="seed">([^<]+)</td>', page)
    assert names == [html.escape(one.run) for one in found.stages for _ in range(len(one))]
    roles = {run: rows.sort_values("head")["role"].to_list() for run, rows in found.replicates.roles.groupby("run")}
    assert roles["seed-1"] == roles["seed-0"][::-1]
    assert read_json(tmp_path / "out" / REPLICATES)["runs"] == list(found.replicates.runs)
    assert "over 3 seeds:" in str(found)
    assert found._repr_html_().startswith("<iframe")


def test_one_run_is_no_seeds(folders_of_seeds: list[Path], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"seeds side by side are two runs or more, got .*seed-0"):
        report_seeds(folders_of_seeds[:1], tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_a_batch_that_is_foreign_to_a_seed_qualifies_what_recurs(foreign: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(foreign, other)
    found = report_seeds([foreign, other], tmp_path / "out")
    assert str(found).count(f"\n{CAVEAT}:\n  ") == 3
    page = found.report.read_text(encoding="utf8")
    assert "The probe batch is foreign to these models</small>" in page
    sections = page.split("<section ")[1:]
    assert all(CAVEAT in section for section in sections)
