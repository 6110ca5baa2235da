"""Jumps between levels."""

import itertools

import numpy as np
import pytest

from stagewise.statistics._segments import jumps


@pytest.mark.parametrize("number", [1, 2, 3])
def test_no_other_places_leave_less(number: int) -> None:
    curve = np.random.default_rng(0).standard_normal(14).cumsum()

    def left(ends: tuple[int, ...]) -> float:
        parts = np.split(curve, np.array(ends) + 1)
        return sum(float(((part - part.mean()) ** 2).sum()) if len(part) > 1 else np.inf for part in parts)

    least = min(itertools.combinations(range(13), number), key=left)
    assert tuple(jumps(curve, number)) == least


def test_a_short_curve_has_fewer() -> None:
    assert len(jumps(np.arange(8.0), 6)) == 3
