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


def test_an_event_is_written_by_the_fields_that_say_something() -> None:
    assert Event(EventKind.BOUNDARY, reference="one").plain == {"kind": "boundary", "reference": "one"}
    assert json.loads(json.dumps(FALL.plain)) == FALL.plain
