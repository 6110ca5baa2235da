"""Several measured runs: every one has a name of its own, and stages."""

import re
import shutil
from pathlib import Path

import pandas as pd
import pytest

from stagewise.checkpoints._table_file import read_json
from stagewise.checkpoints.run_folder import RUN, TABLE, write, write_json
from stagewise.findings._roles import head_roles
from stagewise.reporting._measured_runs import MeasuredRuns, first_foreign, read_runs, report_seeds, stages_part
from stagewise.reporting.comparison import compare
from stagewise.saved_findings import REPLICATES
from stagewise.words import CAVEAT


@pytest.fixture(scope="module")
def folders(one_onset: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runs of one name, as of two sweeps; in the second one the heads have each other's indices."""
    places = [tmp_path_factory.mktemp("runs") / name for name in "ab"]
    for place, table in zip(places, (one_onset, one_onset.assign(head=1 - one_onset["head"])), strict=True):
        write(place / TABLE, lambda partial, table=table: table.assign(nested=0).to_parquet(partial))  # type: ignore[misc]
    return places


@pytest.fixture(scope="module")
def runs(folders: list[Path]) -> MeasuredRuns:
    return read_runs(folders)


def test_runs_of_one_name_are_named_by_their_folders(folders: list[Path], runs: MeasuredRuns) -> None:
    assert runs.names == tuple(folder.as_posix() for folder in folders)
    assert [one.run for one in runs.stages] == list(runs.names)
    assert first_foreign(runs.familiarities) is None


def test_aligned_rows_have_roles_in_place_of_indices(runs: MeasuredRuns) -> None:
    first, second = (rows for _, rows in runs.aligned(head_roles(runs.whole)).groupby("run", sort=False))
    keys = ["step", "probe", "quantity", "layer", "head"]
    pd.testing.assert_series_equal(
        first.sort_values(keys)["value"], second.sort_values(keys)["value"], check_index=False
    )


def test_the_stages_of_each_run_stand_behind_its_name(runs: MeasuredRuns) -> None:
    names = re.findall(r'<td[^>]* data-column="seed">([^<]+)</td>', stages_part(runs.stages).body)
    assert names == [one.run for one in runs.stages for _ in range(len(one))]


def test_runs_with_batches_of_different_sizes_are_compared_in_tokens(one_onset: pd.DataFrame, tmp_path: Path) -> None:
    """The second run has twice the tokens a step, and learns from as many: half of the steps."""
    half = one_onset.assign(run="half", step=one_onset["step"] // 2).drop_duplicates(["step", "head"])
    tables = {"a": (one_onset.assign(run="whole"), 1000), "b": (half, 2000)}
    for name, (table, each) in tables.items():
        counted = table.assign(nested=0, tokens=each * table["step"])
        write(tmp_path / name / TABLE, lambda partial, counted=counted: counted.to_parquet(partial, index=False))  # type: ignore[misc]
        write_json(tmp_path / name / RUN, {"recipe": {"plan": {"batch_size": each}}})
    places = (tmp_path / "a", tmp_path / "b")
    (event,) = compare(*places).comparison.events.to_dict("records")
    assert event["later_hi"] < 0
    compared = compare(*places, axis="tokens")
    (event,) = compared.comparison.events.to_dict("records")
    assert event["later_lo"] < 0 < event["later_hi"]
    assert event["step"] == pytest.approx(100_000, rel=0.1)
    assert "which is earlier cannot be told" in str(compared)
    assert re.search(r"at 1\d\dk tokens in whole, 1\d\dk in half|at \d\d\.?\d?k tokens in whole", str(compared))
    assert "optimiser steps later" not in str(compared)
    page = report_seeds(places, tmp_path / "out", axis="tokens").report.read_text(encoding="utf8")
    assert "tokens (log scale" in page
    assert "from tokens" in page


def test_runs_of_which_one_does_not_say_its_tokens_are_not_compared_in_tokens(folders: list[Path]) -> None:
    with pytest.raises(ValueError, match="how many tokens run had seen is not known"):
        read_runs(folders, "tokens")


def test_a_run_without_scores_is_refused(one_onset: pd.DataFrame, tmp_path: Path) -> None:
    few = one_onset[one_onset["step"] == one_onset["step"].min()].assign(nested=0)
    write(tmp_path / TABLE, lambda partial: few.to_parquet(partial))
    with pytest.raises(ValueError, match="neither references nor scores over four checkpoints: leave it out"):
        read_runs([tmp_path])


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
