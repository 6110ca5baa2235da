"""Events have names of their own, by what began."""

from stagewise.event import Event, EventKind
from stagewise.table import Quantity
from stagewise.words import event_names

ATTENTION = Quantity("attention mass", range=(0, 1), progress="up")
TO_ONE = (("layer", 0), ("head", 1), ("relation", "I(1)"))


def test_an_event_is_named_by_what_began() -> None:
    loss = Event(EventKind.ONSET, "Loss", "cross_entropy", up=False)
    fall = Event(EventKind.ONSET, "AttentionTo", "mass", TO_ONE, up=False)
    foreign = Event(EventKind.ONSET, "Mine", "score", (("position", 3),), number=2)
    boundary = Event(EventKind.BOUNDARY, reference="one")
    quantities = {
        "Loss": {"cross_entropy": Quantity("loss", "nats", progress="down", onset="the loss falls")},
        "AttentionTo": {"mass": ATTENTION},
    }
    assert event_names([loss, loss, fall, foreign, boundary], quantities) == [
        "the loss falls",
        "the loss falls",
        "L0H1 attends less to I(1)",
        "position 3: Mine score rises (number 2)",
        "end of the stage of one",
    ]


def test_two_curves_of_one_name_are_told_apart() -> None:
    both = [Event(EventKind.ONSET, probe, "mass", TO_ONE) for probe in ("AttentionTo", "Mine")]
    assert event_names(both, {probe: {"mass": ATTENTION} for probe in ("AttentionTo", "Mine")}) == [
        "L0H1 attends more to I(1) (AttentionTo mass)",
        "L0H1 attends more to I(1) (Mine mass)",
    ]
