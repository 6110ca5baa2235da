"""Causal attention of the last queries: both ways against the formula, and by the shape alone."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from stagewise.models import _causal_attention as module
from stagewise.models._causal_attention import causal_attention, causal_mask

FLOAT32 = 1e-5
"""Sums of a few dozen numbers of order one, in another order."""


@pytest.mark.parametrize("short", [0, 10_000], ids=["kernel", "products"])
@pytest.mark.parametrize("queries", [1, 3, 9])
def test_the_last_queries_see_the_keys_up_to_their_own_position(
    queries: int, short: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SHORT", short)
    q, k, v = torch.randn(3, 2, 4, 9, 5, generator=torch.Generator().manual_seed(0))
    z = causal_attention(q[:, :, 9 - queries :], k, v, scale=1.7)
    for position in range(9 - queries, 9):
        scores = (k[:, :, : position + 1] * q[:, :, position : position + 1]).sum(-1) / 1.7
        expected = (scores.softmax(-1)[..., None] * v[:, :, : position + 1]).sum(2)
        torch.testing.assert_close(z[:, :, position - 9], expected, atol=FLOAT32, rtol=FLOAT32)


def test_the_way_depends_on_the_shape_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    kernel = F.scaled_dot_product_attention

    def counted(q: torch.Tensor, *rest: Any, **named: Any) -> torch.Tensor:
        taken.append(len(q))
        return kernel(q, *rest, **named)

    monkeypatch.setattr(F, "scaled_dot_product_attention", counted)
    for batch, width in [(1, 80), (1, 81), (8, 80), (8, 81)]:
        q, k, v = torch.randn(3, batch, 1, 10, width)
        causal_attention(q, k, v, scale=1.0)
    assert taken == [1, 8]


def test_a_mask_made_in_inference_mode_serves_training() -> None:
    q, k, v = torch.randn(3, 2, 1, 13, 90)  # wide enough for torch's kernel, which saves the mask
    last = q[:, :, 6:].clone().requires_grad_()
    with torch.inference_mode():
        expected = causal_attention(q[:, :, 6:], k, v, scale=1.0).clone()
    z = causal_attention(last, k, v, scale=1.0)
    z.sum().backward()
    torch.testing.assert_close(z.detach(), expected)
    assert last.grad is not None


def test_the_mask_hides_the_keys_that_come_later() -> None:
    hidden = causal_mask(2, 3, torch.zeros(1))
    assert hidden.tolist() == [[0, 0, -torch.inf], [0, 0, 0]]
