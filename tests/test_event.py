"""Events are equal by their fields, and come back from plain data."""

import dataclasses
import json

from stagewise.event import Event, EventKind

FALL = Event(EventKind.ONSET, "Loss", "cross_entropy", (("position", 7),), up=False, number=2)


def test_events_are_equal_where_all_fields_are() -> None:
    assert dataclasses.replace(FALL) == FALL
    assert len({FALL, dataclasses.replace(FALL), dataclasses.replace(FALL, up=True)}) == 2


def test_an_event_without_its_number_is_the_first_of_its_kind() -> None:
    assert FALL.unnumbered.number == 1
    assert FALL.unnumbered != FALL


def test_an_event_comes_back_from_json() -> None:
    boundary = Event(EventKind.BOUNDARY, reference="one")
    for event in (FALL, boundary):
        assert Event.of(json.loads(json.dumps(event.plain))) == event
    assert boundary.plain == {"kind": "boundary", "reference": "one"}
