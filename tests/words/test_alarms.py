"""Alarms are sentences with a curve, a step and levels."""

import pytest

from stagewise.findings.alarms import Alarm, AlarmKind
from stagewise.words import alarms_in_words

LEVELS = {"before": 0.1234, "after": 0.9, "last": 0.2}
SAID = [
    (AlarmKind.NOT_FINITE, {"quantity": "loss"}, "loss is not finite from step 40 on"),
    (
        AlarmKind.DIVERGES,
        {"quantity": "loss", **LEVELS},
        "loss has its minimum at step 40, and rises from 0.123 to 0.9: the run diverges",
    ),
    (
        AlarmKind.DIES,
        {"quantity": "mass", "relation": "induction", "layer": 1, "head": 2, **LEVELS},
        "L1H2, induction rose from 0.123 to 0.9, and is back at 0.2 by step 40: the head dies",
    ),
    (AlarmKind.MISSING, {"event": "induction"}, "no onset of induction by step 40"),
]


@pytest.mark.parametrize(("kind", "labels", "sentence"), SAID)
def test_each_kind_has_its_sentence(kind: AlarmKind, labels: dict[str, object], sentence: str) -> None:
    assert alarms_in_words([Alarm(kind, 40.0, labels)]) == [sentence]


def test_every_kind_is_said() -> None:
    assert {kind for kind, _, _ in SAID} == {*AlarmKind}
