"""Whether a head's weights prefer the position at a fixed offset."""

import dataclasses

import torch
from einops import rearrange

from stagewise.attention import Circuits
from stagewise.probe import AbstractCircuitProbe, Quantity, Reading


@dataclasses.dataclass(frozen=True)
class QKOffset(AbstractCircuitProbe):
    """Share of positions whose highest score over themselves and earlier positions is `offset` back, in [0, 1].

        share(l, h) = mean over i >= offset of [ argmax_{j <= i} p_i QK p_j^T = i - offset ],   p the learned positions

    With offset 1, whether the head is a previous-token head by its positions alone. The share does not depend on the
    scale of the scores, which normalisation sets. A random head has the mean of 1 / (i + 1).

    Args:
        offset: how far back; 0 is the position itself.
        positions: how many positions to compare; None for all.

    Raises:
        ValueError: the model has no learned positions, or too few.

    Source: the positional part of the QK circuit of Elhage et al. (2021), A Mathematical Framework for Transformer
    Circuits; the share is this library's.

    A head in which every position attends to the one before it:

    >>> from stagewise import architectures, models
    >>> model = models.build(architectures.minimal(d_vocab=3, n_ctx=4, n_heads=1))
    >>> model.blocks[0].attn.W_Q.data[0, 3:7, 3:7] = torch.eye(4).roll(-1, 1)
    >>> circuits = models.circuits(model)
    >>> [QKOffset(offset).read_circuits(circuits)[0].values.item() for offset in (1, 2)]
    [1.0, 0.0]
    """

    quantities = {
        "share": Quantity(
            "looking back, by weights", range=(0, 1), progress="up", onset="looks back, by its weights", weights=True
        ),
    }

    offset: int = 1
    positions: int | None = None

    def read_circuits(self, circuits: Circuits) -> list[Reading]:
        """Return `share` by layer and head; one head's scores are in memory at a time."""
        if circuits.W_pos is None:
            raise ValueError("QKOffset reads learned positions, this model has none: leave it out")
        learned = len(circuits.W_pos)
        count = learned if self.positions is None else self.positions
        if not 0 <= self.offset < count <= learned:
            raise ValueError(f"expected 0 <= offset < positions <= {learned}; got {self.offset} and {count}")
        p = circuits.W_pos[:count]
        queries, keys = p @ circuits.QK.A, p @ circuits.QK.B.mT.contiguous()
        shares = [self._share(*pair) for pair in zip(queries.flatten(0, 1), keys.flatten(0, 1), strict=True)]
        by_head = rearrange(shares, "(layer head) -> layer head", head=queries.shape[1])
        return [Reading("layer head", by_head, "share")]

    def _share(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        later = torch.ones(len(query), len(query), dtype=torch.bool, device=query.device).triu(1)
        best = (query @ key.T).masked_fill(later, -torch.inf).argmax(-1)
        target = torch.arange(len(query), device=query.device) - self.offset
        return (best == target)[self.offset :].float().mean()
