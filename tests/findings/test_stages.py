"""Stages: by which method they are found, what is refused, and that they are saved and read as they are."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from stagewise.checkpoints.run_folder import FORMAT, RUN, TABLE, table_file, write, write_json
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.findings.frames import digest
from stagewise.findings.onsets import find_onsets
from stagewise.findings.scores import evidence, rows_of_evidence
from stagewise.findings.stages import FRAMES, STAGES, Stages, find_stages, load_stages, stages_of
from stagewise.measurement.engine import measure
from stagewise.measurement.parts import join
from stagewise.probes import AttentionTo, KLToReference, Loss
from stagewise.statistics import StageCriteria
from stagewise.tasks import MarkovChain
from stagewise.words.stages import turning_points
from tests.conftest import unchecked_types

pytestmark = pytest.mark.usefixtures("unchecked")


def assert_equal(found: Stages, expected: Stages) -> None:
    for field in dataclasses.fields(Stages):
        if field.name not in FRAMES:
            assert getattr(found, field.name) == getattr(expected, field.name)
        else:
            pd.testing.assert_frame_equal(getattr(found, field.name), getattr(expected, field.name))


def test_columns_of_text_may_be_categories(both: pd.DataFrame) -> None:
    text = dict.fromkeys(("run", "probe", "quantity", "reference", "relation"), "category")
    assert_equal(find_stages(both.astype(text)), find_stages(both))


@pytest.fixture
def folder(both: pd.DataFrame, tmp_path: Path) -> Path:
    write(tmp_path / TABLE, both.to_parquet)
    return tmp_path


def test_stages_are_found_in_references_where_there_are_two_and_carry_the_onsets_too(both: pd.DataFrame) -> None:
    stages = find_stages(both)
    assert stages.from_references
    assert stages.references == ("one", "two", "all")
    assert len(stages) == 3
    assert stages.onsets["onset"].sum() == 2
    assert "becomes" not in stages.words()


def test_a_boundary_and_an_onset_where_something_was_done_to_the_run_are_none(both: pd.DataFrame) -> None:
    first = find_stages(both).turning_points["step"].iloc[0]
    stages = find_stages(both, causes={"a larger batch": int(first), "the drop": 500})
    assert len(stages) == 2
    assert stages.turning_points["verdict"].iloc[0] == "coincides"
    assert stages.onsets["onset"].sum() == 1
    assert (stages.onsets["cause"] == "the drop").sum() == 1


def test_what_was_done_to_the_run_is_named_beside_the_stages_of_the_other_onsets(attention: pd.DataFrame) -> None:
    lines = find_stages(attention, causes={"the drop": 500}).words().splitlines()
    assert [line.split(",")[0] for line in lines] == [
        "stage 1",
        "stage 2",
        "not counted: 1 more that may come from the drop at step 500",
    ]


def test_a_boundary_while_something_was_done_to_the_run_is_none(both: pd.DataFrame) -> None:
    first = int(find_stages(both).turning_points["step"].iloc[0])
    during = find_stages(both, causes={"the warm-up": (0, first)}).turning_points
    assert during["cause"].tolist()[0] == "the warm-up"
    assert during["verdict"].iloc[0] == "coincides"
    assert not (find_stages(both, causes={"the warm-up": (0, first // 4)}).turning_points["cause"] != "").any()


def test_with_one_reference_stages_are_found_in_onsets(both: pd.DataFrame) -> None:
    stages = find_stages(both[both["reference"].isna() | (both["reference"] == "all")])
    assert not stages.from_references
    assert stages.references == ()
    assert stages.turning_points.empty
    assert "becomes an induction head" in stages.words()


def test_references_that_are_asked_for_are_those_that_are_used(both: pd.DataFrame) -> None:
    assert find_stages(both, references=["one", "all"]).references == ("one", "all")


def test_one_stage_says_why_by_the_method_that_it_was_found_by(both: pd.DataFrame) -> None:
    flat = both.assign(value=0.5)
    assert "one is not approached: KL to it never falls below its first value" in find_stages(flat).words()
    scores = find_stages(flat[flat["reference"].isna()]).words()
    assert "L0H1 previous token does not move" in scores


def test_one_stage_of_references_lists_the_onsets_of_scores(both: pd.DataFrame) -> None:
    flat = both.assign(value=both["value"].where(both["probe"] != "KLToReference", 1.0))
    lines = find_stages(flat).words().splitlines()
    began = lines[lines.index("onsets of scores:") + 1 :]
    assert began
    assert all(line.startswith("  step ") for line in began)
    assert "onsets of scores:" not in find_stages(both).words()


def test_several_runs_are_refused(references: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="one run at a time, the table has 2"):
        find_stages(pd.concat([references, references.assign(run="other")]))


@pytest.mark.parametrize("probe", ["Loss", "MeanPattern"])
def test_a_table_without_references_and_scores_is_refused(references: pd.DataFrame, probe: str) -> None:
    with pytest.raises(ValueError, match=rf"neither KL to .* nor scores that onsets are looked for in.* has {probe}"):
        find_stages(references.assign(probe=probe))


@pytest.mark.parametrize("method", ["references", "onsets"])
def test_loaded_stages_are_those_that_were_saved(both: pd.DataFrame, method: str, tmp_path: Path) -> None:
    table = both if method == "references" else both[both["reference"].isna()]
    stages = find_stages(table, criteria=StageCriteria(simulations=50))
    path = stages.save(tmp_path)
    assert path == tmp_path / STAGES
    assert_equal(load_stages(tmp_path), stages)
    json.loads(path.read_text(encoding="utf8"), parse_constant=lambda word: pytest.fail(f"{word} is not plain JSON"))


def test_a_stage_that_is_not_over_is_loaded_as_such(attention: pd.DataFrame, tmp_path: Path) -> None:
    stages = find_stages(attention)
    stages.onsets.loc[0, "t90_hi"] = np.inf
    stages.save(tmp_path)
    assert np.isinf(load_stages(tmp_path).onsets["t90_hi"]).any()


def test_stages_of_a_folder_are_found_once(folder: Path, both: pd.DataFrame) -> None:
    stages = stages_of(folder)
    assert stages is not None
    assert_equal(stages, find_stages(both))
    marked = dataclasses.replace(stages, run="the saved one")
    marked.save(folder)
    assert_equal(stages_of(folder) or stages, marked)
    assert_equal(stages_of(both, folder=folder) or stages, marked)


def test_what_the_record_of_a_folder_says_was_done_to_its_run_is_a_cause(folder: Path, both: pd.DataFrame) -> None:
    assert len(stages_of(folder) or ()) == 3
    first = int(find_stages(both).turning_points["step"].iloc[0])
    plan = {"steps": 2 * first, "cooldown": first, "warmup": 2}
    write_json(folder / RUN, {"format": FORMAT, "recipe": {"plan": plan}})
    stages = stages_of(folder)
    assert stages is not None
    why = turning_points(stages.turning_points, stages.context)[0]
    assert why.endswith(f"has its minimum at the learning rate's cool-down at step {first}: it ends no stage")
    causes = {"the learning rate's warm-up": (0, 2), "the learning rate's cool-down": first}
    assert load_stages(folder).causes == stages.causes == causes
    assert_equal(stages_of(folder) or stages, stages)


def test_stages_of_another_table_or_by_other_criteria_are_found_anew(folder: Path, both: pd.DataFrame) -> None:
    strict = StageCriteria(depth=1.0)
    find_stages(both, criteria=strict).save(folder)
    assert [len(stages_of(folder, criteria) or ()) for criteria in (None, strict, StageCriteria())] == [1, 1, 3]
    write(folder / TABLE, both.assign(value=0.5).to_parquet)
    assert len(stages_of(folder) or ()) == 1
    assert (stages_of(folder) or load_stages(folder)).criteria == StageCriteria()


def test_stages_that_other_code_found_are_found_anew(folder: Path) -> None:
    stages_of(folder)
    saved = json.loads((folder / STAGES).read_text(encoding="utf8"))
    write(folder / STAGES, lambda partial: partial.write_text(json.dumps({**saved, "code": "another", "run": "old"})))
    assert (stages_of(folder) or load_stages(folder)).run == "run"


def test_a_table_that_can_show_no_stages_has_none(both: pd.DataFrame, folder: Path) -> None:
    for table in (both[both["step"] < 3], both[both["reference"] == "all"], both.assign(probe="MeanPattern")):
        assert stages_of(table, folder=folder) is None
    assert not (folder / STAGES).exists()
    assert stages_of(both[both["step"] < 3], StageCriteria(checkpoints=3)) is not None


def test_what_cannot_be_read_says_what_to_do(tmp_path: Path, references: pd.DataFrame) -> None:
    with pytest.raises(FileNotFoundError, match="find the stages first, with `stagewise stages"):
        load_stages(tmp_path)
    path = find_stages(references).save(tmp_path)
    write(path, lambda partial: partial.write_text('{"run": "a"}'))
    with pytest.raises(ValueError, match="another version of stagewise: delete it"):
        load_stages(tmp_path)
    write(path, lambda partial: partial.write_text("{"))
    with pytest.raises(ValueError, match="not valid JSON"):
        load_stages(tmp_path)


def test_a_measured_table_has_one_digest_in_memory_and_on_disk(
    small_run: CheckpointSeries, small_task: MarkovChain, tmp_path: Path
) -> None:
    probes = [Loss(), KLToReference(), AttentionTo()]
    table = measure(small_run, probes, small_task.probe_batch(8, 0), save=tmp_path / TABLE, progress=False)
    stored = pd.read_parquet(tmp_path / TABLE)
    mapped = join([tmp_path / TABLE], mapped_rows=0)
    mapped.attrs = stored.attrs
    assert digest(table) == digest(stored) == digest(mapped)
    file = table_file(tmp_path)
    assert digest(rows_of_evidence(table)) == digest(file.read(evidence(file.outline), arrays=["resamples"]))
    assert digest(table) != digest(table.assign(value=table["value"] + 1e-9))


@pytest.mark.parametrize("verb", [find_stages, find_onsets])
def test_a_folder_in_place_of_a_table_is_refused_with_what_takes_it(verb: Callable[..., object]) -> None:
    with unchecked_types(), pytest.raises(ValueError, match=r"what `measure` returns, got str; of a .* `stages_of`"):
        verb("runs/mine")
