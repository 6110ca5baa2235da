"""Findings: every kind has its sentence, made from its data, and an audit survives JSON with both."""

import json

import pytest

from stagewise.checkpoints.findings import Audit, Finding, Kind

FINDINGS = {
    "step 300 of stage1 is missing": Finding(Kind.MISSING_STEP, (300,), branch="stage1"),
    "step 8: checkpoint-8, checkpoint-008": Finding(Kind.REPEATED_STEP, (8,), ("checkpoint-8", "checkpoint-008")),
    "a, b: most are named as c. Are they of another training?": Finding(Kind.OTHER_NAMES, (8,), ("a", "b"), reason="c"),
    "tables/a.json: cut off": Finding(Kind.DAMAGED, (), ("tables/a.json",), reason="cut off"),
    "item 3, step 20, comes after step 30": Finding(Kind.OUT_OF_ORDER, (20,), ("item 3",), other_step=30),
    "c-8: its name says step 8, its trainer_state.json 9": Finding(
        Kind.OTHER_STEP_RECORDED, (8,), ("c-8",), other_step=9, reason="its trainer_state.json"
    ),
    "a was written before b: the steps may be other numbers in the names": Finding(
        Kind.OTHER_ORDER, (8, 16), reason="a was written before b"
    ),
    "a, b: cfg (C) beside the weights": Finding(Kind.LEFT_ASIDE, (8, 16), ("a", "b"), reason="cfg (C)"),
    "a, b have the same bytes": Finding(Kind.IDENTICAL_WEIGHTS, (8, 16), ("a", "b")),
    "a: holds no weights": Finding(Kind.NO_WEIGHTS, (8,), ("a",)),
    "a: cut off": Finding(Kind.DAMAGED, (8,), ("a",), reason="cut off"),
    "a: u, v, w, and 2 more": Finding(Kind.NON_FINITE_WEIGHTS, (8,), ("a",), weights=tuple("uvwxy")),
    "a: w is missing": Finding(Kind.UNFIT, (8,), ("a",), reason="w is missing"),
    "a: holds objects": Finding(Kind.NOT_ONLY_WEIGHTS, (8,), ("a",), reason="holds objects"),
    "a: u are those of step 4, the other weights are not": Finding(
        Kind.WEIGHTS_OF_ANOTHER_STEP, (8,), ("a",), other_step=4, weights=("u",)
    ),
    "a: u: away from both neighbours, 7 times the usual way": Finding(
        Kind.OUTLYING_WEIGHTS, (8,), ("a",), weights=("u",), times=7.0
    ),
    "a: its weights have nothing in common with those of step 4, 9.5 times the usual way before it": Finding(
        Kind.OTHER_RUN, (8,), ("a",), other_step=4, times=9.5
    ),
    "the run has come to step 8 of 32": Finding(Kind.UNFINISHED, (8,), other_step=32),
    "a: u is (3,), usually (4,), and 1 more": Finding(
        Kind.OTHER_SHAPES, (8,), ("a",), differences={"u": ((3,), (4,)), "v": (None, (4,))}
    ),
    "a: u is missing, usually torch.float32": Finding(
        Kind.OTHER_TYPES, (8,), ("a",), differences={"u": (None, "torch.float32")}
    ),
    "a: rope = 5.0, usually None": Finding(Kind.OTHER_CONFIG, (8,), ("a",), differences={"rope": (5.0, None)}),
}


@pytest.mark.parametrize("words", FINDINGS)
def test_a_sentence_is_made_from_the_data(words: str) -> None:
    assert FINDINGS[words].message == words


def test_every_kind_has_a_sentence() -> None:
    assert {finding.kind for finding in FINDINGS.values()} == set(Kind)


def test_a_config_that_others_have_is_missed() -> None:
    assert Finding(Kind.OTHER_CONFIG, (8,), ("a",)).message == "a: has none, most others have one"


def test_an_audit_is_plain_data_with_its_sentences() -> None:
    audit = Audit("mine", 9, True, tuple(FINDINGS.values()), ("main",))
    read = json.loads(audit.to_json())
    assert (read["name"], read["checkpoints"], read["weights"], read["ignored"]) == ("mine", 9, True, ["main"])
    assert [finding["message"] for finding in read["findings"]] == list(FINDINGS)
    assert [finding["kind"] for finding in read["findings"]] == [str(one.kind) for one in FINDINGS.values()]
    assert read["findings"][[one.kind for one in FINDINGS.values()].index(Kind.OUT_OF_ORDER)]["other_step"] == 30


def test_what_is_no_fault_and_what_is_no_checkpoint_is_told_beside() -> None:
    note = Finding(Kind.UNFINISHED, (8,), other_step=32)
    audit = Audit("mine", 9, True, (), ("main", "logs"), (note,))
    assert audit.clean
    assert str(audit).splitlines()[1:] == [
        "  nothing is wrong",
        "  note: the run has come to step 8 of 32",
        "  not taken for checkpoints: main, logs",
    ]


def test_an_audit_is_clean_without_findings_alone() -> None:
    assert Audit("mine", 9, True, ()).clean
    found = Audit("mine", 9, False, (FINDINGS["a: cut off"],))
    assert not found.clean
    assert str(found).splitlines() == [
        "mine: 9 checkpoints; compared: names, hashes, configs but no weights",
        "  damaged: a: cut off",
    ]
