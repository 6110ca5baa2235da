"""How much each head attends along a relation, from wherever the relation starts."""

import dataclasses

import torch

from stagewise.attention import mass_on
from stagewise.probe import AbstractPatternProbe, Reading, View, chosen


@dataclasses.dataclass(frozen=True)
class AttentionAlong(AbstractPatternProbe):
    """Mean attention mass from the queries that a relation names to its keys, by layer and head.

        mass(l, h, r) = mean over {q : r(q) not empty} of sum_{k in r(q)} A^{l,h}_{qk},   in [0, 1]

    `AttentionTo` averages over the scored queries; this one also sees what earlier positions do: copying heads (value
    to key), previous-token heads, beside selection or induction heads (query to value).

    Args:
        relations: names of the batch's relations; None for all.

    Raises:
        ValueError: the batch has no such relation, or a sequence has no query in it.

    Source: Zucchet et al. (2025), arXiv:2505.17863, the copying and selection scores of Figure 17.

    >>> AttentionAlong(("value to key",))
    AttentionAlong(relations=('value to key',))
    """

    relations: tuple[str, ...] | None = None

    def read(self, view: View) -> list[Reading]:
        """Return `mass` by layer, head and relation."""
        batch = view.batch
        names = chosen(self.relations, batch.relations, "relation")
        masses = []
        for name in names:
            queries = batch.relations[name].any(-1)
            if not queries.any(-1).all():
                missing = (~queries.any(-1)).nonzero()[:, 0].tolist()
                raise ValueError(f"sequences {missing[:5]} have no query in the relation {name!r}: leave them out")
            masses.append(mass_on(view.patterns, batch.relations[name], queries))
        return [Reading("batch layer head relation", torch.stack(masses, -1), "mass", {"relation": names})]
