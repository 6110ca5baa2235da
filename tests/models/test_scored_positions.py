"""The scored positions of each sequence, and nothing of what fills them up."""

import pytest
import torch

from stagewise.models._scored_positions import ScoredPositions

EVEN = torch.tensor([[0, 1, 0, 1], [1, 0, 0, 1]]).bool()
RAGGED = torch.tensor([[0, 1, 1, 1], [0, 0, 0, 1]]).bool()


@pytest.mark.parametrize("scored", [EVEN, RAGGED])
def test_the_rows_are_those_of_the_scored_positions_in_their_order(scored: torch.Tensor) -> None:
    x = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
    queries = ScoredPositions.of(scored)
    assert torch.equal(queries.flat(queries.take(x)), x[scored])


def test_sequences_with_as_many_scored_positions_need_no_filling() -> None:
    assert ScoredPositions.of(EVEN).real is None
    assert ScoredPositions.of(RAGGED).index.tolist() == [[1, 2, 3], [3, 0, 0]]
