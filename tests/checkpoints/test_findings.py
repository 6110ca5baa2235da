"""Findings: every kind has its sentence, made from its data, and an audit survives JSON with both."""

import json

import pytest

from stagewise.checkpoints.findings import Audit, Finding, Kind, sentence

FINDINGS = {
    "step 300 of stage1 is missing": Finding(Kind.MISSING_STEP, (300,), branch="stage1"),
    "step 8: checkpoint-8, checkpoint-008": Finding(Kind.REPEATED_STEP, (8,), ("checkpoint-8", "checkpoint-008")),
    "item 3, step 20, comes after step 30": Finding(Kind.OUT_OF_ORDER, (20,), ("item 3",), other_step=30),
    "c-8: its name says step 8, its trainer_state.json 9": Finding(
        Kind.OTHER_STEP_RECORDED, (8,), ("c-8",), other_step=9
    ),
    "a, b have the same bytes": Finding(Kind.IDENTICAL_WEIGHTS, (8, 16), ("a", "b")),
    "a: holds no weights": Finding(Kind.NO_WEIGHTS, (8,), ("a",)),
    "a: cut off": Finding(Kind.DAMAGED, (8,), ("a",), reason="cut off"),
    "a: u, v, w, and 2 more": Finding(Kind.NON_FINITE_WEIGHTS, (8,), ("a",), weights=tuple("uvwxy")),
    "a: u": Finding(Kind.OUTLYING_NORM, (8,), ("a",), weights=("u",)),
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
    assert sentence(FINDINGS[words]) == FINDINGS[words].message == words


def test_every_kind_has_a_sentence() -> None:
    assert {finding.kind for finding in FINDINGS.values()} == set(Kind)


def test_a_config_that_others_have_is_missed() -> None:
    assert sentence(Finding(Kind.OTHER_CONFIG, (8,), ("a",))) == "a: has none, most others have one"


def test_an_audit_is_plain_data_with_its_sentences() -> None:
    audit = Audit("mine", 9, True, tuple(FINDINGS.values()), ("main",))
    read = json.loads(audit.to_json())
    assert (read["name"], read["checkpoints"], read["weights"], read["ignored"]) == ("mine", 9, True, ["main"])
    assert [finding["message"] for finding in read["findings"]] == list(FINDINGS)
    assert [finding["kind"] for finding in read["findings"]] == [str(one.kind) for one in FINDINGS.values()]
    assert read["findings"][2]["other_step"] == 30


def test_an_audit_is_clean_without_findings_alone() -> None:
    assert Audit("mine", 9, True, ()).clean
    found = Audit("mine", 9, False, (FINDINGS["a: u"],))
    assert not found.clean
    assert str(found).splitlines() == [
        "mine: 9 checkpoints; compared: names, hashes, configs but no weights",
        "  outlying norm: a: u",
    ]
