"""Mean patterns: the batch mean of each map, whose rows sum to one."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from stagewise.measurement._rows import bootstrap_weights, rows
from stagewise.probe import View
from stagewise.probes import MeanPattern
from stagewise.table import maps_in

FLOAT32 = 1e-6
"""Sums of a few float32 numbers below one."""

PATTERNS = torch.rand(4, 2, 3, 5, 5, generator=torch.Generator().manual_seed(0)).tril()
PATTERNS = PATTERNS / PATTERNS.sum(-1, keepdim=True)


def test_each_map_is_the_mean_over_the_sequences(view_of: Callable[..., View]) -> None:
    (reading,) = MeanPattern().read(view_of(PATTERNS))
    expected = sum(PATTERNS[row] for row in range(4)) / 4
    torch.testing.assert_close(reading.values, expected, atol=FLOAT32, rtol=0)


def test_rows_sum_to_one_and_look_at_nothing_later(view_of: Callable[..., View]) -> None:
    (reading,) = MeanPattern().read(view_of(PATTERNS))
    torch.testing.assert_close(reading.values.sum(-1), torch.ones(2, 3, 5), atol=FLOAT32, rtol=0)
    assert not reading.values.triu(1).any()


def test_each_head_is_a_row_of_the_table_with_its_map(
    view_of: Callable[..., View], looking_back: Callable[[int, int], Tensor]
) -> None:
    patterns = torch.stack([looking_back(4, 1), looking_back(4, 2)])
    (reading,) = MeanPattern().read(view_of(patterns.expand(3, 1, 2, -1, -1)))
    table = rows(reading, bootstrap_weights(3, 5))
    assert table[["layer", "head"]].to_numpy().tolist() == [[0, 0], [0, 1]]
    torch.testing.assert_close(torch.from_numpy(maps_in(table)), patterns)


@pytest.mark.parametrize("length", [1, 2])
def test_the_shortest_contexts_work(view_of: Callable[..., View], length: int) -> None:
    (reading,) = MeanPattern().read(view_of(torch.eye(length).expand(1, 1, 1, -1, -1)))
    assert torch.equal(reading.values[0, 0], torch.eye(length))


def test_maps_of_the_first_positions_are_those_of_shorter_sequences(view_of: Callable[..., View]) -> None:
    (whole,) = MeanPattern().read(view_of(PATTERNS))
    (reading,) = MeanPattern(3).read(view_of(PATTERNS))
    assert torch.equal(reading.values, whole.values[..., :3, :3])
    assert [list(reading.labels[axis]) for axis in ("query", "key")] == [[0, 1, 2]] * 2


def test_a_map_of_no_position_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one position, got n_positions=0"):
        MeanPattern(0)
