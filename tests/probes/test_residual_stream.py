"""The residual stream: alike positions, and the directions in which they vary."""

import math

import pytest

from stagewise.probe import example_view
from stagewise.probes import ResidualStream
from stagewise.probes.participation_ratio import participation_ratio


@pytest.mark.parametrize(
    ("vectors", "expected"),
    [
        ([[1, 2], [2, 4], [3, 6]], 1.0),
        ([[1, 0], [-1, 0]], -1.0),
        ([[1, 0], [1, 1], [0, 1]], (2 / math.sqrt(2) + 0) / 3),
    ],
)
def test_the_cosine_is_the_mean_over_all_pairs(vectors: list[list[int]], expected: float) -> None:
    streams = {"blocks.0.hook_resid_pre": vectors, "blocks.0.hook_resid_post": vectors}
    cosine, dimensions = ResidualStream().read(example_view(tokens=range(len(vectors)), activations=streams))
    assert cosine.values.tolist() == pytest.approx([pytest.approx([expected] * 2, abs=1e-6)])
    assert dimensions.statistic is participation_ratio


def test_vectors_on_a_line_have_one_dimension_and_corners_of_a_square_two() -> None:
    corners = [[1, 0], [-1, 0], [0, 1], [0, -1]]
    streams = {"blocks.0.hook_resid_pre": [[x, 2 * x] for x in range(4)], "blocks.0.hook_resid_post": corners}
    _, dimensions = ResidualStream().read(example_view(tokens=range(4), activations=streams))
    assert participation_ratio(dimensions.values.numpy()) == pytest.approx([1, 2])


def test_a_sequence_of_one_position_has_no_cosine() -> None:
    streams = {"blocks.0.hook_resid_pre": [[1, 0]], "blocks.0.hook_resid_post": [[1, 0]]}
    readings = ResidualStream().read(example_view(tokens=[0], activations=streams))
    assert [reading.quantity for reading in readings] == ["dimensions"]
