"""Stages: by which method they are found, what is refused, and that they are saved and read as they are."""

import dataclasses
from collections.abc import Callable

import pandas as pd
import pytest

from stagewise.findings.onsets import find_onsets
from stagewise.findings.stages import FRAMES, Stages, find_stages
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


@pytest.mark.parametrize("verb", [find_stages, find_onsets])
def test_a_folder_in_place_of_a_table_is_refused_with_what_takes_it(verb: Callable[..., object]) -> None:
    with unchecked_types(), pytest.raises(ValueError, match=r"what `measure` returns, got str; of a .* `stages_of`"):
        verb("runs/mine")
