"""Comparisons of single checkpoints with the others."""

from collections.abc import Callable

import pytest

from stagewise.checkpoints._comparisons import other_steps, read_each, unusual
from stagewise.checkpoints._pickles import NotOnlyWeightsError
from stagewise.checkpoints._weight_files import Contents
from stagewise.checkpoints.findings import Kind
from stagewise.checkpoints.names import Coordinates
from stagewise.checkpoints.sources import Entry, Source


def entries(*steps: int) -> list[Entry]:
    return [Entry(f"c-{step}", Coordinates(step), lambda: Contents({}), lambda: None) for step in steps]


def raising(reason: Exception) -> Callable[[Entry], int]:
    def read(entry: Entry) -> int:
        raise reason

    return read


def test_the_most_common_description_is_the_usual_one() -> None:
    described: list[dict[str, object]] = [{"a": 1}, {"a": 1, "b": (2, 3)}, {"a": 1, "b": (2, 3)}, {"a": 2, "b": (2, 3)}]
    by_entry = dict(zip(entries(0, 1, 2, 3), described, strict=True))
    found = {one.steps: one.differences for one in unusual(Kind.OTHER_SHAPES, by_entry)}
    assert found == {(0,): {"b": (None, (2, 3))}, (3,): {"a": (2, 1)}}


def test_a_step_that_one_file_records_differently_is_found() -> None:
    known = entries(0, 10, 20, 30)
    recorded = {entry: entry.at.step for entry in known} | {known[2]: 10}
    (found,) = other_steps(recorded, "its file")
    assert (found.steps, found.other_step, found.reason) == ((20,), 10, "its file")


def test_files_that_all_count_something_else_are_no_fault() -> None:
    assert not [*other_steps({entry: entry.at.step // 10 for entry in entries(0, 10, 20, 30)}, "its file")]


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        (FileNotFoundError("gone"), Kind.NO_WEIGHTS),
        (ValueError("cut"), Kind.DAMAGED),
        (OSError("a loop of links"), Kind.DAMAGED),
        (NotOnlyWeightsError("objects"), Kind.NOT_ONLY_WEIGHTS),
    ],
)
def test_what_cannot_be_read_is_a_finding(reason: Exception, kind: Kind) -> None:
    (entry,) = entries(5)
    read, (found,) = read_each(Source("mine", (entry,)), [entry], raising(reason))
    assert not read
    assert (found.kind, found.steps, found.reason) == (kind, (5,), str(reason))


def test_a_hub_that_does_not_answer_ends_the_audit() -> None:
    (entry,) = entries(5)
    with pytest.raises(ConnectionError, match="no answer"):
        read_each(Source("owner/name", (entry,), remote=True), [entry], raising(ConnectionError("no answer")))
