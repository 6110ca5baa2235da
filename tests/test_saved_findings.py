"""Findings beside their table: what is saved comes back, and what does not belong to the table is found anew."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from stagewise.checkpoints.run_folder import FORMAT, RUN, TABLE, table_file, write, write_json
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.criteria import StageCriteria
from stagewise.findings._frames import digest
from stagewise.findings.scores import evidence, rows_of_evidence
from stagewise.findings.stages import FRAMES, Stages, find_stages
from stagewise.measurement._earlier import join
from stagewise.measurement.engine import measure
from stagewise.probes import AttentionTo, KLToReference, Loss
from stagewise.saved_findings import STAGES, load_stages, save_stages
from stagewise.tasks import MarkovChain
from stagewise.words.stages import turning_points
from tests.fixtures.leftover import left_over

pytestmark = pytest.mark.usefixtures("unchecked")


def assert_equal(found: Stages, expected: Stages) -> None:
    for field in dataclasses.fields(Stages):
        if field.name not in FRAMES:
            assert getattr(found, field.name) == getattr(expected, field.name)
        else:
            pd.testing.assert_frame_equal(getattr(found, field.name), getattr(expected, field.name))


def read(folder: Path) -> Stages:
    """The stages that were saved in a folder."""
    return Stages.of(json.loads((folder / STAGES).read_text(encoding="utf8")))


@pytest.fixture
def folder(both: pd.DataFrame, tmp_path: Path) -> Path:
    write(tmp_path / TABLE, both.to_parquet)
    return tmp_path


@pytest.mark.parametrize("method", ["references", "onsets"])
def test_loaded_stages_are_those_that_were_saved(both: pd.DataFrame, method: str, tmp_path: Path) -> None:
    table = both if method == "references" else both[both["reference"].isna()]
    stages = find_stages(table, criteria=StageCriteria(simulations=50))
    path = save_stages(stages, tmp_path)
    assert path == tmp_path / STAGES
    assert_equal(read(tmp_path), stages)
    json.loads(path.read_text(encoding="utf8"), parse_constant=lambda word: pytest.fail(f"{word} is not plain JSON"))


def test_a_stage_that_is_not_over_is_loaded_as_such(attention: pd.DataFrame, tmp_path: Path) -> None:
    stages = find_stages(attention)
    stages.onsets.loc[0, "t90_hi"] = np.inf
    save_stages(stages, tmp_path)
    assert np.isinf(read(tmp_path).onsets["t90_hi"]).any()


def test_stages_of_a_folder_are_found_once(folder: Path, both: pd.DataFrame, stages_of_both: Stages) -> None:
    stages = load_stages(folder)
    assert stages is not None
    assert_equal(stages, stages_of_both)
    marked = dataclasses.replace(stages, run="the saved one")
    save_stages(marked, folder)
    assert_equal(load_stages(folder) or stages, marked)
    assert_equal(load_stages(both, folder=folder) or stages, marked)


def test_what_a_killed_process_left_beside_its_findings_goes_when_they_are_read(folder: Path) -> None:
    load_stages(folder)
    leftover = left_over(folder / STAGES)
    load_stages(folder)
    assert not leftover.exists()


def test_what_the_record_of_a_folder_says_was_done_to_its_run_is_a_cause(folder: Path, stages_of_both: Stages) -> None:
    assert len(load_stages(folder) or ()) == 3
    first = int(stages_of_both.turning_points["step"].iloc[0])
    plan = {"steps": 2 * first, "cooldown": first, "warmup": 2}
    write_json(folder / RUN, {"format": FORMAT, "recipe": {"plan": plan}})
    stages = load_stages(folder)
    assert stages is not None
    why = turning_points(stages.turning_points, stages.context)[0]
    assert why.endswith(f"(the learning rate's cool-down at step {first}, which may have timed it)")
    causes = {"the learning rate's warm-up": (0, 2), "the learning rate's cool-down": first}
    assert read(folder).causes == stages.causes == causes
    assert_equal(load_stages(folder) or stages, stages)


def test_stages_of_another_table_or_by_other_criteria_are_found_anew(folder: Path, both: pd.DataFrame) -> None:
    strict = StageCriteria(depth=1.0)
    save_stages(find_stages(both, criteria=strict), folder)
    assert [len(load_stages(folder, criteria) or ()) for criteria in (None, strict, StageCriteria())] == [3, 3, 3]
    assert [one["left"] for one in read(folder).table.to_dict("records")] == ["", "one", "two"]
    write(folder / TABLE, both.assign(value=0.5).to_parquet)
    assert len(load_stages(folder) or ()) == 1
    assert (load_stages(folder) or read(folder)).criteria == StageCriteria()


def test_stages_that_another_version_found_are_found_anew(folder: Path) -> None:
    load_stages(folder)
    saved = json.loads((folder / STAGES).read_text(encoding="utf8"))
    write(folder / STAGES, lambda partial: partial.write_text(json.dumps({**saved, "version": 0, "run": "old"})))
    assert (load_stages(folder) or read(folder)).run == "run"


def test_a_table_that_can_show_no_stages_has_none(both: pd.DataFrame, folder: Path) -> None:
    for table in (both[both["step"] < 3], both[both["reference"] == "all"], both.assign(probe="MeanPattern")):
        assert load_stages(table, folder=folder) is None
    assert not (folder / STAGES).exists()
    assert load_stages(both[both["step"] < 3], StageCriteria(checkpoints=3)) is not None


def test_what_cannot_be_read_says_what_to_do(folder: Path) -> None:
    load_stages(folder)
    saved = json.loads((folder / STAGES).read_text(encoding="utf8"))
    kept = {name: saved[name] for name in ("version", "digest")}
    write(folder / STAGES, lambda partial: partial.write_text(json.dumps(kept)))
    with pytest.raises(ValueError, match=r"is not what stagewise writes there: delete it"):
        load_stages(folder)
    write(folder / STAGES, lambda partial: partial.write_text("{"))
    with pytest.raises(ValueError, match="not valid JSON"):
        load_stages(folder)


def test_a_measured_table_has_one_digest_in_memory_and_on_disk(
    small_run: CheckpointSeries, small_task: MarkovChain, tmp_path: Path
) -> None:
    probes = [Loss(), KLToReference(), AttentionTo()]
    table = measure(small_run, probes, small_task.probe_batch(8, 0), save=tmp_path / TABLE, progress=False)
    stored = pd.read_parquet(tmp_path / TABLE)
    mapped = join([tmp_path / TABLE], rows_in_memory=0)
    mapped.attrs = stored.attrs
    assert digest(table) == digest(stored) == digest(mapped)
    file = table_file(tmp_path)
    assert digest(rows_of_evidence(table)) == digest(file.read(evidence(file.outline), arrays=["resamples"]))
    assert digest(table) != digest(table.assign(value=table["value"] + 1e-9))
