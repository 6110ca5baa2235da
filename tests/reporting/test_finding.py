"""The first lines of a report: how many stages, when they part, what happened above all, or why none of it counts."""

import math

import pandas as pd

from stagewise.findings.batch_familiarity import BatchFamiliarity, Familiarity
from stagewise.findings.stages import find_stages
from stagewise.reporting.finding import finding, headline

FOREIGN = BatchFamiliarity(Familiarity.GUESSED, 4.2, 9.4, 4.16, 200)


def test_the_first_sentences_say_how_many_transitions_when_and_which_head_did_what(one_onset: pd.DataFrame) -> None:
    stages = find_stages(one_onset)
    (step,) = stages.table["start"].iloc[1:]
    assert headline(stages) == f"One transition, at step {step}"
    count, when, *_ = finding(stages).split(". ")
    assert count == "One transition was found"
    assert when.startswith(f"Half-way at step {step} [")
    assert when.endswith("L0H0 becomes a previous-token head (0.04 -> 0.85)")


def test_a_transition_during_something_that_was_done_to_the_run_names_it_and_counts(one_onset: pd.DataFrame) -> None:
    warm = find_stages(one_onset, causes={"the warm-up": (0, int(one_onset["step"].max()))})
    assert len(warm) == 2
    assert "(the warm-up, until step" in finding(warm)
    assert ", which may have timed it): " in finding(warm)


def test_what_the_schedule_alone_explains_is_told_as_that(one_onset: pd.DataFrame) -> None:
    loss = one_onset.query("layer == 0 and head == 0").assign(probe="Loss", quantity="cross_entropy", relation=None)
    drop = find_stages(loss.drop(columns=["layer", "head"]), causes={"the drop": 100})
    assert headline(drop) == "No transition was found"
    assert "What 1 curve did at the drop at step 100 is explained by that." in finding(drop)


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
