"""The positions whose predictions count, as queries of the last layer: nothing else of it need be computed."""

import dataclasses
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclasses.dataclass(frozen=True, eq=False)
class ScoredPositions:
    """The scored positions, as many of each sequence: those with fewer are filled up with position 0."""

    index: Int[Tensor, "batch query"]
    real: Bool[Tensor, "batch query"] | None

    @classmethod
    def of(cls, scored: Bool[Tensor, "batch pos"]) -> "ScoredPositions":
        """List the scored positions of each sequence."""
        counts = scored.sum(1)
        most = int(counts.max())
        index = scored.to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :most]
        real = torch.arange(most, device=scored.device) < counts[:, None]
        return cls(torch.where(real, index, 0), None if bool(real.all()) else real)

    @cached_property
    def distinct(self) -> Int[Tensor, "#batch query"]:
        """Their index, of one sequence where all have the same."""
        first = self.index[:1]
        return first if bool((self.index == first).all()) else self.index

    def take(self, x: Float[Tensor, "#batch pos *axes"]) -> Float[Tensor, "batch query *axes"]:
        """Return the values at these positions; one sequence's values stand for all."""
        first = 0 if len(x) == 1 else torch.arange(len(x), device=x.device)[:, None] * x.shape[1]
        # Rows of one axis: two axes indexed at once take twice as long.
        taken = x.flatten(0, 1).index_select(0, (first + self.index).flatten())
        return taken.view(*self.index.shape, *x.shape[2:])

    def flat(self, x: Float[Tensor, "batch query sum"]) -> Float[Tensor, "scored sum"]:
        """Return the values of the scored ones, one a row."""
        return x.flatten(0, 1) if self.real is None else x[self.real]
