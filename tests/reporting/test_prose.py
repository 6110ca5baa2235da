"""What the report says in words and tables."""

import math

import pandas as pd

from stagewise.findings.batch_familiarity import BatchFamiliarity, Familiarity
from stagewise.findings.stages import find_stages
from stagewise.reporting._prose import finding, headline, html_table, in_words, number, run_in_words, title
from stagewise.words._times import interval

FOREIGN = BatchFamiliarity(Familiarity.GUESSED, 4.2, 9.4, 4.16, 200)


def test_the_first_sentences_say_how_many_transitions_when_and_which_head_did_what(one_onset: pd.DataFrame) -> None:
    stages = find_stages(one_onset)
    (step,) = stages.table["start"].iloc[1:]
    assert headline(stages) == f"One transition, at step {step}"
    count, when, *_ = finding(stages).split(". ")
    assert count == "One transition was found"
    assert when.startswith(f"Half-way at step {step} [")
    assert when.endswith("L0H0 becomes a previous-token head (0.05 -> 0.85)")


def test_a_transition_during_something_that_was_done_to_the_run_names_it_and_counts(one_onset: pd.DataFrame) -> None:
    warm = find_stages(one_onset, causes={"the warm-up": (0, int(one_onset["step"].max()))})
    assert len(warm) == 2
    assert "(the warm-up, until step" in finding(warm)
    assert ", which may have timed it): " in finding(warm)


def test_what_the_schedule_alone_explains_is_told_as_that(one_onset: pd.DataFrame) -> None:
    loss = one_onset.query("layer == 0 and head == 0").assign(probe="Loss", quantity="cross_entropy", relation=None)
    drop = find_stages(loss.drop(columns=["layer", "head"]), causes={"the drop": 100})
    assert headline(drop) == "No transition was found"
    assert "The drop at step 100 explains the change of 1 curve: loss from 0.05 to 0.85." in finding(drop)


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


def test_the_title_has_words_in_place_of_a_folders_name() -> None:
    run = {"recipe": {"task": {"type": "AssociativeRecall"}}}
    assert title(run, "recall-n_pairs=12-n_tokens=64-n_copies=1.0-seed=0-budget=7400") == "Associative recall"
    assert title(run, "seed-3") == "Associative recall: seed-3"
    assert title({"recipe": {}}, "a run") == "a run"
    assert len(title(run, "x" * 90)) < 50


def test_long_cells_wrap_numbers_do_not_and_every_cell_knows_its_column() -> None:
    text = html_table(["what <b>", "t50"], [["a & b " * 9, 12]])
    assert '<td class="long" data-column="what &lt;b&gt;">a &amp; b ' in text
    assert '<td data-column="t50">12</td>' in text
    assert '<td class="word" data-column="p">5e-06</td>' in html_table(["p"], [["5e-06"]])
    assert "stacked" not in text
    assert "stacked" in html_table(["a", "b", "c", "d"], [[1, 2, 3, 4]])


def test_the_run_is_described_whatever_its_record_holds(table: pd.DataFrame) -> None:
    words = run_in_words(
        {"recipe": {"plan": {"steps": 9, "batch_size": 4, "optimiser": "sgd", "learning_rate": 0.1}}},
        table,
    )
    assert words.startswith("It was trained for 9 steps of 4 sequences with SGD, learning rate 0.1")
    assert f"fixed batch of {table['n'].max()} sequences; " in words
    measured = run_in_words({}, table, {"positions": 48})
    assert f"fixed batch of {table['n'].max()} sequences of 48 positions; " in measured
    unfinished = {"recipe": {"plan": {"steps": 601, "batch_size": 4, "optimiser": "sgd", "learning_rate": 0.1}}}
    assert run_in_words(unfinished, table).startswith("It was seen up to step 600 of 601 steps of 4 sequences with SGD")
    plan = {"steps": 9, "batch_size": 4, "optimiser": "adamw", "learning_rate": 0.1, "warmup": 3, "cooldown": 2}
    branched = {"recipe": {"schedules": {"task.p": {"type": "Ramp"}}}, "parent": {"folder": "../..", "step": 120}}
    expected = "In training task.p changed by a schedule and up to step 120 it is the run that it branches from."
    assert run_in_words(branched, table).startswith(expected)
    warmed = run_in_words({"recipe": {"plan": plan}}, table)
    assert "learning rate 0.1, warm-up over 3 steps, cool-down over 2 steps, weight decay 0." in warmed
    architecture = {"config": {"n_layers": 1, "n_heads": 2, "d_model": 8}, "init": {"type": "a.b:PostNorms"}}
    added = "The model is a transformer of 1 layer with 2 heads (width 8, with what PostNorms of a.b adds)."
    assert run_in_words({"recipe": {"architecture": architecture}}, table).startswith(added)
    plain = {**architecture, "init": {"type": "GaussianInit"}}
    assert "heads (width 8)." in run_in_words({"recipe": {"architecture": plain}}, table)
    assert run_in_words({}, table).startswith("19 checkpoints, from step 0 to step 600")
    assert interval(5, 5, 5) == "5"


def test_names_of_classes_are_words_and_numbers_have_three_digits() -> None:
    assert [in_words(name) for name in ("KLToReference", "a <b>")] == ["KL to reference", "a <b>"]
    assert [number(value) for value in (0.01234, 12.34, 1149.2)] == ["0.0123", "12.3", "1149"]
