"""Attention along a relation: every query that it names counts, and no other."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from stagewise.probe import View
from stagewise.probes import AttentionAlong


def test_a_previous_token_head_scores_one_along_the_previous_token(
    view_of: Callable[..., View], looking_back: Callable[[int, int], Tensor]
) -> None:
    patterns = torch.stack([looking_back(5, 1), looking_back(5, 2)])[None, None]
    only_last = (torch.arange(5) == 4)[None]
    previous = (torch.arange(5)[:, None] - 1 == torch.arange(5))[None]
    (reading,) = AttentionAlong().read(view_of(patterns, {"previous": previous}, only_last))
    # Looking two back, query 1 lands on position 0, which is the one before it.
    assert reading.values[0, 0, :, 0].tolist() == pytest.approx([1, 0.25])


def test_a_relation_without_a_query_is_refused(view_of: Callable[..., View]) -> None:
    view = view_of(torch.full((2, 1, 1, 3, 3), 1 / 3), {"none": torch.zeros(2, 3, 3, dtype=torch.bool)})
    with pytest.raises(ValueError, match=r"sequences \[0, 1\] have no query in the relation 'none'"):
        AttentionAlong().read(view)
    with pytest.raises(ValueError, match="no relation 'other'; it has 'none'"):
        AttentionAlong(("other",)).read(view)
