"""Paths: distances and cosines are those of the weights; what is missing or never moves is left out."""

import numpy as np
import pytest
import torch

from stagewise.checkpoints._weight_path import common_path, norm, paths_of
from tests.checkpoints.walks import KINDS, common_of, series, sketches_of


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("of", [1, 2])
def test_strides_are_distances_between_weights(kind: str, of: int) -> None:
    checkpoints = series(kind)
    path = paths_of(sketches_of(checkpoints))[0]
    expected = [float((b["w0"] - a["w0"]).norm()) for a, b in zip(checkpoints, checkpoints[of:], strict=False)]
    np.testing.assert_allclose(path.strides(of), expected, rtol=0.2)


def test_cosines_are_those_of_neighbours_and_one_beside_zero() -> None:
    weights = [torch.tensor(values) for values in ([1.0, 0], [1.0, 1], [-1.0, -1], [0.0, 0], [0.0, 3])]
    (path,) = paths_of(sketches_of([{"w": weight} for weight in weights]))
    np.testing.assert_allclose(path.cosines(), [0.5**0.5, -1, 1, 1])


def test_a_checkpoint_without_a_weight_or_with_another_shape_or_not_finite_is_not_on_its_path() -> None:
    checkpoints = series("walk", n=8)
    del checkpoints[1]["w0"]
    checkpoints[3]["w0"] = checkpoints[3]["w0"][:4]
    checkpoints[5]["w0"][0, 0] = torch.nan
    path, *_ = (one for one in paths_of(sketches_of(checkpoints)) if one.name == "w0")
    assert path.rows.tolist() == [0, 2, 4, 6, 7]
    assert len(path.strides()) == 4
    common, _ = common_of(checkpoints)
    assert common.rows.tolist() == [0, 2, 4, 6, 7]


def test_the_common_path_counts_each_weight_in_its_own_strides() -> None:
    checkpoints = series("walk", weights=2)
    for one in checkpoints:
        one["w1"] = 1000 * one["w1"]
    common, _ = common_of(checkpoints)
    assert np.median(common.strides()) == pytest.approx(1, rel=0.1)


def test_what_never_moves_is_on_no_common_path() -> None:
    fixed = {"w": torch.randn(30, 40)}
    paths = paths_of(sketches_of([fixed] * 5))
    assert common_path(paths) is None
    assert not paths[0].moves()
    moving = [{**fixed, "v": torch.randn(10, 10)} for _ in range(5)]
    common, _ = common_of(moving)
    assert common.size == 100


def test_a_path_without_some_checkpoints_joins_their_neighbours() -> None:
    path = paths_of(sketches_of(series("drift", n=6)))[0]
    shorter = path.without([2, 3])
    assert shorter.rows.tolist() == [0, 1, 4, 5]
    assert shorter.strides()[1] == pytest.approx(path.strides(3)[1])


def test_the_norm_of_float32_differences_is_taken_in_float64() -> None:
    assert norm(np.array([[3e-30, 4e-30]], dtype=np.float32))[0] == pytest.approx(5e-30)
