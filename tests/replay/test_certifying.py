"""Certificates of planted runs: the head that alone can do it is needed, and what it says is kept."""

import itertools
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from evidence.calibration.certificates import GainInit, certified, planted
from stagewise.checkpoints.run_folder import CERTIFICATE, INTERVENTIONS
from stagewise.checkpoints.series import folder_of, open_series
from stagewise.replay import Parent
from stagewise.replay._delays import BEHAVIOUR
from stagewise.replay.certifying import certify, experiments_of

pytestmark = pytest.mark.usefixtures("few_sequences", "unchecked")
ATTENTION = "attention to lag"
RECIPE = planted((1.0, 0.0), steps=80, every=2)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame]:
    folder = tmp_path_factory.mktemp("planted") / "run"
    return folder, certified(folder, RECIPE, start=6)


def test_the_head_that_alone_can_do_it_is_needed_and_muted_ones_do_not_matter(alone: tuple[Path, pd.DataFrame]) -> None:
    folder, rows = alone
    said = rows[rows["transition"] == ATTENTION].set_index("subject")["verdict"].to_dict()
    assert said == {"L0H0": "needed", "L0H1": "does not matter"}
    late = rows[(rows["transition"] == "transition 1") & (rows["subject"] == "L0H0")]
    assert late["verdict"].tolist() == ["needed"]
    assert late["value"].tolist() == [float("inf")]
    pd.testing.assert_frame_equal(pd.read_parquet(folder / CERTIFICATE), rows)


@pytest.fixture
def prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All prompts of three tokens, whose answer is the first one."""
    monkeypatch.chdir(tmp_path)
    rows = [f"{a} {b} {c},{a},{(a + 1) % 4}" for a, b, c in itertools.product(range(4), repeat=3)]
    (file := tmp_path / "first.csv").write_text("\n".join(["prompt,right,wrong", *rows]), "utf-8")
    return file


def test_a_behaviour_needs_the_head_that_alone_can_do_it_and_its_tables_are_its_own(
    alone: tuple[Path, pd.DataFrame], prompts: Path
) -> None:
    folder, _ = alone
    before = pd.read_parquet(folder / INTERVENTIONS)
    rows = certify(folder, start=6, pairs=prompts, recipe=RECIPE, progress=False)
    assert rows["transition"].tolist() == [BEHAVIOUR] * 2
    assert dict(zip(rows["subject"], rows["verdict"], strict=True)) == {"L0H0": "needed", "L0H1": "does not matter"}
    place = folder_of(open_series(folder, classes=[GainInit]), prompts)
    pd.testing.assert_frame_equal(pd.read_parquet(place / CERTIFICATE), rows)
    assert len(pd.read_parquet(place / INTERVENTIONS)) == len(rows) + 3  # kicks of both, and another order
    pd.testing.assert_frame_equal(pd.read_parquet(folder / INTERVENTIONS), before)
    with pytest.raises(ValueError, match="no behaviour comes after step 78 of run"):
        certify(folder, start=78, pairs=prompts, recipe=RECIPE, progress=False)


@pytest.mark.slow
def test_orders_join_the_evidence_and_nothing_is_trained_twice(alone: tuple[Path, pd.DataFrame]) -> None:
    folder, rows = alone
    times = {path: path.stat().st_mtime_ns for path in folder.rglob("*.safetensors")}
    joined = certify(folder, start=6, seeds=2, recipe=RECIPE, progress=False)
    assert all(path.stat().st_mtime_ns == time for path, time in times.items())
    assert (joined["lo"] <= rows["lo"]).all()
    assert (joined["hi"] >= rows["hi"]).all()
    table = pd.read_parquet(folder / INTERVENTIONS)
    assert set(table.loc[table["kind"] == "out", "seed"].fillna(0)) == {0, 1}


def test_classes_of_predictions_are_subjects_too_and_each_is_held_to_the_one_of_the_nearest_size(
    alone: tuple[Path, pd.DataFrame],
) -> None:
    folder, _ = alone
    classes = ["of token 0", "of token 1", "at position"]
    (experiment,) = experiments_of(Parent(folder, RECIPE), classes, 6, 2)
    late = experiment.subjects["predictions at positions 3 to 6"]
    assert late.matched is not None
    assert late.matched.startswith("predictions ")
    assert [one.paired for one in late.own] == [None, experiment.orders[0].name]
    assert not late.kicks
    names = [one.name for one in experiment.branches]
    assert len(set(names)) == len(names) == 1 + 2 * (len(experiment.subjects) + 2)  # two heads have a kick each


def test_each_transition_starts_at_the_last_checkpoint_before_it_begins(alone: tuple[Path, pd.DataFrame]) -> None:
    folder, rows = alone
    recipe = RECIPE
    experiments = experiments_of(Parent(folder, recipe), (), None, 1)
    starts = {of.label: of.begins for experiment in experiments for of in experiment.transitions}
    comes = rows.groupby("transition", sort=False)["comes"].first()
    assert set(starts) == set(comes.index)
    assert all(0 < start < comes[what] and start in recipe.plan.saved_steps for what, start in starts.items())


def test_a_start_after_all_transitions_and_no_order_are_refused(alone: tuple[Path, pd.DataFrame]) -> None:
    folder, _ = alone
    how: Any = {"recipe": RECIPE, "progress": False}
    with pytest.raises(ValueError, match="the answer names no transition of run after step 70 that its loss"):
        certify(folder, start=70, **how)
    with pytest.raises(ValueError, match="certify from an earlier step than 80, got 80"):
        certify(folder, start=80, **how)
    with pytest.raises(ValueError, match="the run's own, got 0"):
        certify(folder, seeds=0, **how)
