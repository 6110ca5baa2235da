"""Which onsets are one period of change: those that share a time, and many one after another."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from stagewise.findings.periods import periods
from stagewise.statistics import DEFAULT

LAST = 10_000


def onsets(times: Sequence[float] | np.ndarray, error: float = 0.05) -> pd.DataFrame:
    """Return onsets at these steps, with an error of so many e-folds to either side."""
    t50 = np.asarray(times, dtype=float)
    return pd.DataFrame({"t50": t50, "t50_lo": t50 * np.exp(-error), "t50_hi": t50 * np.exp(error)})


def found(frame: pd.DataFrame) -> list[list[list[float]]]:
    return [[time["t50"].tolist() for time in times] for times in periods(frame, 0, LAST, DEFAULT.consecutive)]


def test_onsets_whose_intervals_overlap_share_a_time() -> None:
    assert found(onsets([300, 1000, 310, 290])) == [[[290, 300, 310]], [[1000]]]


def test_without_onsets_there_is_no_period() -> None:
    assert found(onsets([])) == []


def test_a_wide_interval_joins_the_nearest_time_and_makes_no_two_times_one() -> None:
    wide = pd.DataFrame({"t50": [1500.0], "t50_lo": [250.0], "t50_hi": [4000.0]})
    frame = pd.concat([onsets([300, 305, 3000, 3010]), wide], ignore_index=True)
    assert found(frame) == [[[300, 305]], [[1500, 3000, 3010]]]


def test_intervals_that_overlap_one_after_another_share_a_time() -> None:
    assert found(onsets([300, 320, 341, 364, 388])) == [[[300, 320, 341, 364, 388]]]


def test_an_onset_that_is_not_over_overlaps_what_comes_later_alone() -> None:
    frame = onsets([300, 3000]).assign(t50_hi=[310.0, np.inf])
    assert found(frame) == [[[300]], [[3000]]]


@pytest.mark.parametrize("number", [2, 3, 5])
def test_a_few_times_are_a_period_each(number: int) -> None:
    assert len(found(onsets(np.geomspace(300, 3000, number)))) == number


def test_many_times_evenly_one_after_another_are_one_period() -> None:
    (period,) = found(onsets(np.geomspace(300, 3000, 14)))
    assert len(period) == 14


def test_a_time_of_several_onsets_before_an_even_sequence_stays_apart() -> None:
    cluster, sequence = found(onsets([*[100.0] * 7, *np.geomspace(1000, 8000, 9)]))
    assert ([len(time) for time in cluster], len(sequence)) == ([7], 9)


def test_six_times_of_several_onsets_each_are_periods_even_where_they_lie_evenly() -> None:
    assert len(found(onsets(np.repeat(np.geomspace(20, 8000, 6), 3)))) == 6


def test_the_order_of_the_rows_does_not_matter() -> None:
    frame = onsets([*[100.0, 103.0, 99.0], *np.geomspace(1000, 8000, 9)])
    shuffled = frame.sample(frac=1, random_state=0)
    assert found(shuffled) == found(frame)
