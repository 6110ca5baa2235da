"""Delays in words: what is not known is left open."""

import math

from stagewise.words._delays import certified_in_words, delay_in_words, end_in_words, held_in_words


def test_a_delay_has_its_interval_and_an_open_end_is_said_to_be_open() -> None:
    assert delay_in_words(45.0, 30.0, 60.0) == "45 [30, 60] steps later"
    assert delay_in_words(math.inf, -math.inf, math.inf) == "no more, or at any step"
    assert end_in_words(-0.2) == "0"


def test_what_was_held_is_a_relation_or_a_kind() -> None:
    row = {"layer": 1, "head": 2, "kind": "uniform", "relation": ""}
    assert held_in_words(row) == "L1H2 uniform"
    assert held_in_words({**row, "kind": "relation", "relation": "I(2)"}) == "L1H2 on I(2)"


def test_a_certificate_says_the_delay_of_a_head_that_speeds_a_transition_up() -> None:
    row = {"transition": "attention to I(2)", "comes": 164.6, "step": 120, "seeds": 1, "lo": 30.0, "hi": 60.0}
    rows = [{**row, "subject": f"L0H{head}", "value": 45.0} for head in range(3)]
    verdicts = ["needed", "speeds it up", "does not matter"]
    said = certified_in_words([{**row, "verdict": verdict} for row, verdict in zip(rows, verdicts, strict=True)])
    assert "L0H0 is needed; L0H1 (without it 45 [30, 60] steps later) speeds it up; L0H2 does not matter" in said
    assert said.endswith("(taken away from step 120 on, in one order of the batches).")
