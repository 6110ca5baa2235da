"""Sentences about a behaviour: when it came, what it did before, a line a head."""

import numpy as np
import pandas as pd

from stagewise.findings.behaviour import HEADS, NEVER, Behaviour
from stagewise.words.behaviour import behaviour


def test_the_dip_and_each_head_are_told() -> None:
    times = {"t50": 450.0, "t50_lo": 400, "t50_hi": 500, "formed": 200.0, "formed_lo": 180, "formed_hi": 220}
    head = {
        "layer": 1,
        "head": 2,
        "kind": "S-inhibition",
        "effect": 1.5,
        "direct": 0.1,
        **times,
        "before": 0.98,
        "after": "L1H0",
    }
    other = dict.fromkeys(HEADS, np.nan) | {"layer": 0, "head": 3, "kind": "", "effect": -0.5, "after": ""}
    found = Behaviour(True, 3.0, 300, (400.0, 380.0, 420.0), (100, 200, 150, -0.8), pd.DataFrame([head, other]))
    assert behaviour(found) == [
        "The right answer is preferred by 3.00 nats at the end, surely from step 300 on, half-way at step 400 [380, "
        "420].",
        "Before that it was the wrong one, steps 100 to 200: -0.80 nats at step 150.",
        "L1H2, an S-inhibition head: 1.50 nats, directly 0.10; it attends so from step 200 [180, 220] on; matters "
        "from step 450 [400, 500] on; before the behaviour with probability 0.98; took over from L1H0",
        "L0H3, of no kind: -0.50 nats; no onset",
    ]


def test_a_difference_without_an_onset_says_why_no_head_is_before_it() -> None:
    head = dict.fromkeys(HEADS, np.nan) | {"layer": 0, "head": 3, "kind": "", "effect": -0.5, "after": ""}
    first, _ = behaviour(Behaviour(True, 3.0, 300, NEVER, None, pd.DataFrame([head])))
    assert first.endswith("from step 300 on; it has no onset, so that no head is told to be before or after it.")


def test_a_certificate_says_which_heads_the_behaviour_needed_also_those_that_do_not_carry_it_now() -> None:
    head = dict.fromkeys(HEADS, np.nan) | {"layer": 0, "head": 3, "kind": "", "effect": -0.5, "after": ""}
    found = Behaviour(True, 3.0, 300, NEVER, None, pd.DataFrame([head]))
    verdicts = {"L0H3": "needed", "L1H0": "needed", "L1H1": "cannot tell"}
    certificate = pd.DataFrame({"subject": verdicts.keys(), "verdict": verdicts.values()})
    assert behaviour(found, certificate)[1:] == [
        "L0H3, of no kind: -0.50 nats; no onset; the behaviour needed it while it came",
        "The behaviour also needed L1H0 while it came.",
    ]


def test_nothing_is_told_of_heads_where_it_did_not_come() -> None:
    assert len(behaviour(Behaviour(False, 0.1, None, NEVER, None, pd.DataFrame()))) == 1
    assert "No head alone carries it." in behaviour(Behaviour(True, 2.0, None, NEVER, None, pd.DataFrame()))
