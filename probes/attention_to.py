"""How much each head attends to a named relation."""

import dataclasses

import torch

from stagewise.attention import mass_on
from stagewise.probe import AbstractPatternProbe, Reading, View, chosen


@dataclasses.dataclass(frozen=True)
class AttentionTo(AbstractPatternProbe):
    """Mean attention mass from the scored queries to the keys of each relation, by layer and head.

        mass(l, h, r) = mean_q sum_{k in r(q)} A^{l,h}_{qk},   in [0, 1]

    Args:
        relations: names of the batch's relations; None for all.

    Raises:
        ValueError: the batch has no such relation.

    Source: Yüksel et al. (2026), arXiv:2602.19143, the span mass of Figure B. Deviation: all scored queries are
    averaged, the paper's code takes the last one.

    >>> AttentionTo(("I(1)",))
    AttentionTo(relations=('I(1)',))
    """

    relations: tuple[str, ...] | None = None

    def read(self, view: View) -> list[Reading]:
        """Return `mass` by layer, head and relation."""
        batch = view.batch
        names = chosen(self.relations, batch.relations, "relation")
        masses = [mass_on(view.patterns, batch.relations[name], batch.scored) for name in names]
        return [Reading("batch layer head relation", torch.stack(masses, -1), "mass", {"relation": names})]
