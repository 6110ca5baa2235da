"""The first lines of a report: how many stages, when they part, what happened above all, or why none of it counts."""

import dataclasses
import math

import pandas as pd

from stagewise.findings.batch_familiarity import BatchFamiliarity, Familiarity
from stagewise.findings.stages import find_stages
from stagewise.reporting.finding import finding, headline
from stagewise.reporting.prose import count, stages_in_words

FOREIGN = BatchFamiliarity(Familiarity.GUESSED, 4.2, 9.4, 4.16, 200)


def test_two_sentences_say_when_stages_part_and_which_head_did_what(one_onset: pd.DataFrame) -> None:
    stages = find_stages(one_onset)
    assert headline(stages) == "2 stages were found"
    when, what = finding(stages).split(" (95 % intervals in brackets). ")
    assert when.startswith("Training went through 2 stages, which are separated at step ")
    assert what.startswith("Above all, L")


def test_one_stage_with_onsets_or_with_a_known_cause_is_not_said_to_be_smooth(one_onset: pd.DataFrame) -> None:
    stages = find_stages(one_onset)
    n = int(stages.onsets["onset"].sum())
    one = dataclasses.replace(stages, references=("a", "b"), table=stages.table[:1])
    assert headline(one).endswith(f"but {count(n, 'onset')} of scores")
    assert finding(one).startswith(
        "The whole run is one stage: it leaves no partial solution for the next one. It has "
    )
    assert "smooth" not in finding(one)
    warm = find_stages(one_onset, causes={"the warm-up": (0, int(one_onset["step"].max()))})
    assert f"{count(n, 'score')} may have changed by the warm-up, until step" in finding(warm)
    assert "noise, or what was done to the run, or a smooth curve" in stages_in_words(warm)


def test_a_foreign_batch_is_said_before_anything_else(one_onset: pd.DataFrame) -> None:
    stages = find_stages(one_onset)
    assert headline(stages, FOREIGN) == "The probe batch is foreign to this model"
    assert finding(stages, FOREIGN) == str(FOREIGN)


def test_a_batch_of_which_no_loss_was_measured_is_said_to_be_unknown(one_onset: pd.DataFrame) -> None:
    stages, unknown = find_stages(one_onset), BatchFamiliarity(Familiarity.UNKNOWN, math.nan, math.nan, 4.16, 200)
    assert headline(stages, unknown) == headline(stages)
    assert finding(stages, unknown) == f"{finding(stages)} {unknown}"


def test_few_checkpoints_cannot_tell(one_onset: pd.DataFrame) -> None:
    few = sorted(one_onset["step"].unique())[::8]
    stages = find_stages(one_onset[one_onset["step"].isin(few)])
    assert headline(stages) == "Too few checkpoints to find stages"
    assert str(stages).startswith("no stages can be found: with 5 checkpoints no onset can be distinguished from noise")
    assert finding(stages).startswith("No stages can be found")
    assert finding(None).startswith("No stages can be found: there are no scores over at least four checkpoints.")
