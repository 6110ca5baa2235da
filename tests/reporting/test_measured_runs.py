"""Several measured runs: every one has a name of its own, and stages."""

import re
from pathlib import Path

import pandas as pd
import pytest

from stagewise.checkpoints.run_folder import RUN, TABLE, write, write_json
from stagewise.findings._roles import head_roles
from stagewise.reporting._measured_runs import MeasuredRuns, first_foreign, read_runs
from stagewise.reporting._seeds import report_seeds
from stagewise.reporting.comparison import compare


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
