"""Words on two runs compared: heads by the names that they have in both, intervals that cannot tell."""

import pandas as pd

from stagewise.event import Event, EventKind
from stagewise.table import Quantity
from stagewise.words._comparison import comparison, later, names

HEAD = Event(EventKind.ONSET, "AttentionTo", "mass", (("layer", 0), ("head", 0), ("relation", "I(1)")))
MASS = {"AttentionTo": {"mass": Quantity("attention mass", range=(0, 1), progress="up")}}


def roles(distance: float, head: int = 1) -> pd.DataFrame:
    of = {"layer": 0, "role": 0, "distance": distance}
    return pd.DataFrame([{**of, "run": "one", "head": 0}, {**of, "run": "two", "head": head}])


def test_a_head_has_the_names_of_both_runs_and_an_unsure_pair_is_said_to_be() -> None:
    assert names([HEAD], MASS, roles(0.1), "two") == ["L0H0 (in two L0H1) attends more to I(1)"]
    assert names([HEAD], MASS, roles(0.9), "two") == ["L0H0 (in two perhaps L0H1) attends more to I(1)"]
    assert names([HEAD], MASS, roles(0.1, head=0), "two") == ["L0H0 attends more to I(1)"]
    alone = roles(0.1, head=2).query("run == 'two'")
    assert names([HEAD], MASS, alone, "two") == ["L0H2 of two attends more to I(1)"]


def test_runs_without_events_are_said_to_have_none() -> None:
    assert comparison(pd.DataFrame(), [], ("one", "two"), {}) == ["neither run has a boundary or an onset"]
    assert comparison(pd.DataFrame(), [], ("one", "two"), {"two": "nothing is known"}) == [
        "in two nothing is known",
        "no boundary and no onset in one",
    ]


def test_an_event_comes_later_or_it_cannot_be_told_which_is_earlier() -> None:
    assert later({"later": 30.0, "later_lo": 10.0, "later_hi": 50.0}) == "30 [10, 50] steps later"
    unsure = later({"later": -3.0, "later_lo": -10.0, "later_hi": 5.0})
    assert unsure == "which is earlier cannot be told: -3 [-10, 5] steps"
