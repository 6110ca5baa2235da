"""Moves between kinds are told apart by what becomes of the kinds."""

import numpy as np
import pytest

from stagewise.findings._moves import moves_of, without_passing, without_short

CASES = {
    "birth": ([0, 0, 0], [0, 0, 1], (2,)),
    "split": ([1, 1, 0], [1, 2, 0], (1,)),
    "change": ([1, 0, 0], [2, 0, 0], (0,)),
    "merge": ([1, 2, 2], [1, 1, 1], (1, 2)),
    "death": ([1, 0, 0], [0, 0, 0], (0,)),
    "move": ([1, 1, 0], [1, 0, 0], (1,)),
    "swap": ([1, 2, 0], [2, 1, 0], (0, 1)),
}
"""Event -> kinds of three heads before and after, and the heads that move; kind 0 is what all started with."""


@pytest.mark.parametrize("event", CASES)
def test_an_event_is_named_by_what_becomes_of_the_kinds(event: str) -> None:
    before, after, heads = CASES[event]
    ((t, move),) = moves_of(np.array([before, before, after, after]), lambda _, kind: kind == 0)
    assert (t, move.event, move.heads) == (2, event, heads)


def test_kinds_that_are_one_half_way_have_changed_places() -> None:
    labels = np.array([[1, 2], [1, 2], [1, 1], [1, 1], [2, 1], [2, 1]])
    ((t, move),) = moves_of(labels, lambda *_: False)
    assert (t, move.event, move.before, move.heads) == (4, "swap", (1, 2), (0, 1))


def test_a_permutation_of_three_is_one_swap() -> None:
    ((_, move),) = moves_of(np.array([[0, 1, 2, 2], [1, 2, 0, 2]]), lambda *_: False)
    assert (move.event, move.heads) == ("swap", (0, 1, 2))


def test_a_head_keeps_its_label_on_short_visits_and_passing_kinds_go() -> None:
    short = without_short(np.array([[0], [0], [1], [0], [2], [2]]), 2)
    assert short.ravel().tolist() == [0, 0, 0, 0, 2, 2]
    passing = without_passing(np.array([[0], [0], [1], [1], [2], [2]]))
    assert passing.ravel().tolist() == [0, 0, 2, 2, 2, 2]
