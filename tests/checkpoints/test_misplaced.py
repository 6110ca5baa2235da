"""Exchanged checkpoints: found where there is a path; none is found where nothing was exchanged."""

import numpy as np
import pytest

from stagewise.checkpoints._misplaced import all_distances, exchanged
from tests.checkpoints.walks import KINDS, common_of, series


@pytest.mark.each_value
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_exchanged_on_a_path_that_was_not_touched(kind: str, seed: int) -> None:
    assert exchanged(common_of(series(kind, n=30, seed=seed))[0]) == []


@pytest.mark.parametrize("kind", ["drift", "walk"])
@pytest.mark.parametrize("pair", [(4, 5), (2, 4), (3, 9), (0, 1), (10, 11), (0, 11)])
def test_two_exchanged_checkpoints_are_found(kind: str, pair: tuple[int, int]) -> None:
    if kind == "drift" and pair == (0, 11):
        pytest.skip("on a line the ends may be exchanged by reading it backwards but for them")
    checkpoints = series(kind)
    first, second = pair
    checkpoints[first], checkpoints[second] = checkpoints[second], checkpoints[first]
    assert exchanged(common_of(checkpoints)[0]) == [pair]


def test_several_exchanges_are_found() -> None:
    checkpoints = series("walk", n=20)
    for first, second in ((3, 4), (10, 15)):
        checkpoints[first], checkpoints[second] = checkpoints[second], checkpoints[first]
    assert sorted(exchanged(common_of(checkpoints)[0])) == [(3, 4), (10, 15)]


def test_what_belongs_nowhere_is_not_exchanged_with_an_end() -> None:
    checkpoints = series("walk")
    checkpoints[5] = series("walk", seed=1)[5]
    assert exchanged(common_of(checkpoints)[0]) == []


def test_distances_of_long_paths_are_those_of_all_numbers() -> None:
    checkpoints = series("walk", weights=20)
    common, _ = common_of(checkpoints)
    assert common.numbers.shape[1] > 2048
    expected = np.linalg.norm(common.numbers[:, None].astype(float) - common.numbers[None], axis=-1)
    np.testing.assert_allclose(all_distances(common), expected, rtol=1e-4, atol=1e-6)
