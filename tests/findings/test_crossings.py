"""Curves made by hand: the next reference takes over between two checkpoints, or later than the last one."""

import math

import numpy as np
import pandas as pd
import pytest

from stagewise.findings.crossings import Crossing, crossings, taken_over

STEPS = [0, 10, 20, 30, 40]


def table(**curves: list[float] | np.ndarray) -> pd.DataFrame:
    """`KLToReference` rows; a curve of two axes is [resample, step]."""
    frames = []
    for name, values in curves.items():
        rows = pd.DataFrame({"run": "a", "step": STEPS, "probe": "KLToReference", "quantity": "kl", "reference": name})
        draws = np.atleast_2d(values)
        rows["value"] = draws[0]
        rows["resamples"] = list(draws.T) if len(draws) > 1 else None
        frames.append(rows)
    return pd.concat(frames, ignore_index=True)


def test_the_next_reference_takes_over_between_two_checkpoints() -> None:
    found = crossings(table(a=[1, 1, 2, 3, 4], b=[3, 2, 1, 1, 1]), ["a", "b"])
    assert found == [Crossing("a", "b", 10, 20)]
    assert found[0].seen


def test_a_reference_that_never_takes_over_is_later_than_the_last_step() -> None:
    assert crossings(table(a=[1] * 5, b=[2] * 5), ["a", "b"]) == [Crossing("a", "b", 40, math.inf)]


def test_only_a_take_over_for_good_counts() -> None:
    found = crossings(table(a=[1, 3, 1, 1, 4], b=[2, 2, 2, 2, 2]), ["a", "b"])
    assert found == [Crossing("a", "b", 30, 40)]
    assert not crossings(table(a=[1, 3, 3, 3, 1], b=[2] * 5), ["a", "b"])[0].seen


def test_a_reference_that_is_closer_from_the_start_takes_over_at_the_first_step() -> None:
    assert crossings(table(a=[2] * 5, b=[1] * 5), ["a", "b"]) == [Crossing("a", "b", 0, 0)]


def test_the_interval_holds_the_resamples_of_the_batch() -> None:
    early, late = [1, 1, 3, 3, 3], [1, 1, 1, 1, 3]
    found = crossings(table(a=np.array([early] * 10 + [late] * 10), b=np.full((20, 5), 2.0)), ["a", "b"])
    assert found == [Crossing("a", "b", 10, 40)]


def test_where_many_resamples_never_cross_it_was_not_seen() -> None:
    draws = np.array([[1, 1, 3, 3, 3]] * 10 + [[1, 1, 1, 1, 1]] * 10)
    assert not crossings(table(a=draws, b=np.full((20, 5), 2.0)), ["a", "b"])[0].seen


def test_crossings_come_in_the_order_of_the_references() -> None:
    found = crossings(table(a=[1, 2, 3, 4, 5], b=[2, 1.5, 1, 2, 3], c=[3, 3, 3, 1, 1]), ["a", "b", "c"])
    assert [(crossing.before, crossing.after, crossing.lo, crossing.hi) for crossing in found] == [
        ("a", "b", 0, 10),
        ("b", "c", 20, 30),
    ]


def test_a_reference_that_was_not_measured_is_named() -> None:
    with pytest.raises(ValueError, match="no rows of KLToReference, kl, reference=trigram"):
        crossings(table(a=[1] * 5), ["a", "trigram"])


def test_a_reference_that_is_just_as_close_has_not_taken_over() -> None:
    assert not crossings(table(a=[1.0] * 5, b=[1.0] * 5), ["a", "b"])[0].seen


def test_references_take_over_one_after_another_until_one_was_not_seen() -> None:
    curves = table(a=[1, 2, 3, 4, 5], b=[2, 1.5, 1, 2, 3], c=[3, 3, 3, 3, 3.5]).assign(nested=0)
    assert taken_over(curves, 0) == []
    later = table(a=[1, 1, 3, 4, 5], b=[2, 1.5, 1, 2, 3], c=[3, 3, 3, 3, 3.5]).assign(nested=0)
    assert taken_over(later, 0) == [Crossing("a", "b", 10, 20)]
    assert taken_over(later, 10) == []
    assert taken_over(later.assign(nested=1), 0) == taken_over(later[later["reference"] == "a"], 0) == []
