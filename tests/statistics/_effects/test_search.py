"""Parts of the search: the closest curve of levels, the leading fits, and the evidence over settings."""

import itertools

import numpy as np
import pytest

from stagewise.statistics._effects._search import evidence_of, leading, levels
from tests.statistics._effects.problems import fits_of, problem_of


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_jumps_of_the_closest_curve_of_levels_are_those_of_trying_all(number: int) -> None:
    curve = np.random.default_rng(number).standard_normal(11)

    def squares(cuts: tuple[int, ...]) -> float:
        return sum(float(((part - part.mean()) ** 2).sum()) for part in np.split(curve, cuts))

    best = min(itertools.combinations(range(1, 11), number), key=squares)
    gaps, sizes = levels(curve, number)[-1]
    assert gaps.tolist() == [cut - 1 for cut in best]
    assert sizes == pytest.approx(np.diff([part.mean() for part in np.split(curve, best)]))


def test_the_leading_fits_of_each_curve_have_most_evidence() -> None:
    fits = fits_of(problem_of(np.zeros((2, 20))), curve=[0, 1, 0, 1, 0], evidence=[1.0, 5.0, 3.0, 4.0, 2.0])
    assert leading(fits, 1).tolist() == [2, 1]
    assert sorted(leading(fits, 2).tolist()) == [1, 2, 3, 4]


def test_the_evidence_is_summed_over_settings_and_the_best_of_each() -> None:
    fits = fits_of(problem_of(np.zeros((1, 20))), curve=[0, 0, 0], evidence=[1.0, 3.0, 2.0], setting=[0, 0, 1])
    of_groups = evidence_of(fits, np.zeros(3, int), 2)
    assert of_groups == pytest.approx([np.log(np.exp(3.0) + np.exp(2.0)), -np.inf])
