"""Stages: by which method they are found, what is refused, and that they are saved and read as they are."""

import dataclasses
from collections.abc import Callable

import pandas as pd
import pytest

from stagewise import answer
from stagewise.findings.onsets import find_onsets
from stagewise.findings.stages import FRAMES, Stages, find_stages
from stagewise.probes import AttentionTo, KLToReference
from stagewise.table import declare
from tests.conftest import unchecked_types

pytestmark = pytest.mark.usefixtures("unchecked")


def assert_equal(found: Stages, expected: Stages) -> None:
    for field in dataclasses.fields(Stages):
        if field.name not in FRAMES:
            assert getattr(found, field.name) == getattr(expected, field.name)
        else:
            pd.testing.assert_frame_equal(getattr(found, field.name), getattr(expected, field.name))


def test_columns_of_text_may_be_categories(both: pd.DataFrame, stages_of_both: Stages) -> None:
    text = dict.fromkeys(("run", "probe", "quantity", "reference", "relation"), "category")
    assert_equal(find_stages(both.astype(text)), stages_of_both)


def test_stages_are_found_in_references_where_there_are_two_and_carry_the_onsets_too(stages_of_both: Stages) -> None:
    stages = stages_of_both
    assert stages.references == ("one", "two", "all")
    assert len(stages) == 3
    assert stages.onsets["onset"].sum() == 2
    assert [line for line in str(stages).splitlines() if "becomes" in line] == [" ".join(answer(stages))]


def test_a_boundary_and_an_onset_where_something_was_done_to_the_run_name_it_and_count(
    both: pd.DataFrame, stages_of_both: Stages
) -> None:
    first = stages_of_both.turning_points["step"].iloc[0]
    stages = find_stages(both, causes={"a larger batch": int(first), "the drop": 500})
    pd.testing.assert_frame_equal(stages.table, stages_of_both.table)
    assert stages.turning_points["cause"].iloc[0] == "a larger batch"
    assert "(a larger batch at step" in str(stages)
    assert (stages.onsets["cause"] == "the drop").sum() == 1


def test_a_boundary_while_something_was_done_to_the_run_names_it(both: pd.DataFrame, stages_of_both: Stages) -> None:
    first = int(stages_of_both.turning_points["step"].iloc[0])
    during = find_stages(both, causes={"the warm-up": (0, first)}).turning_points
    assert during["cause"].tolist()[0] == "the warm-up"
    assert not (find_stages(both, causes={"the warm-up": (0, first // 4)}).turning_points["cause"] != "").any()


def test_with_one_reference_stages_are_found_in_onsets(both: pd.DataFrame) -> None:
    stages = find_stages(both[both["reference"].isna() | (both["reference"] == "all")])
    assert stages.references == ()
    assert stages.turning_points.empty
    assert "becomes an induction head" in str(stages)


def test_references_that_are_asked_for_are_those_that_are_used(both: pd.DataFrame) -> None:
    assert find_stages(both, references=["one", "all"]).references == ("one", "all")


def test_one_stage_says_why_by_the_method_that_it_was_found_by(both: pd.DataFrame) -> None:
    flat = both.assign(value=0.5)
    assert "one is not approached: KL to it never falls below its first value" in str(find_stages(flat))
    scores = str(find_stages(flat[flat["reference"].isna()]))
    assert "L0H1 previous token does not move" in scores


def test_references_that_show_nothing_veto_no_onset(both: pd.DataFrame) -> None:
    flat = both.assign(value=both["value"].where(both["probe"] != "KLToReference", 1.0))
    scores = both[both["probe"] != "KLToReference"]
    edges = ["start", "start_lo", "start_hi"]
    pd.testing.assert_frame_equal(find_stages(flat).table[edges], find_stages(scores).table[edges])


def test_probes_of_ones_own_with_the_same_roles_give_the_same_stages(
    both: pd.DataFrame, stages_of_both: Stages
) -> None:
    own = both.assign(probe="Own" + both["probe"])
    declare(own, {f"Own{probe.__name__}": probe.quantities for probe in (KLToReference, AttentionTo)})
    found = find_stages(own)
    assert found.references == stages_of_both.references
    for name in ("table", "turning_points", "events", "onsets", "levels"):
        expected = getattr(stages_of_both, name)
        expected = expected.assign(probe="Own" + expected["probe"]) if "probe" in expected else expected
        pd.testing.assert_frame_equal(getattr(found, name), expected)


def test_several_runs_are_refused(references: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="one run at a time, the table has 2"):
        find_stages(pd.concat([references, references.assign(run="other")]))


@pytest.mark.parametrize("probe", ["Loss", "MeanPattern"])
def test_a_table_without_references_and_scores_is_refused(references: pd.DataFrame, probe: str) -> None:
    with pytest.raises(ValueError, match=rf"neither KL to .* nor scores that onsets are looked for in.* has {probe}"):
        find_stages(references.assign(probe=probe))


@pytest.mark.parametrize("verb", [find_stages, find_onsets])
def test_a_folder_in_place_of_a_table_is_refused_with_what_takes_it(verb: Callable[..., object]) -> None:
    with unchecked_types(), pytest.raises(ValueError, match=r"what `measure` returns, got str; of a .* `load_stages`"):
        verb("runs/mine")
