"""How much each head attends to a named relation."""

import dataclasses

import torch

from stagewise.loss import mean_scored
from stagewise.probe import AbstractPatternProbe, Quantity, Reading, View, chosen


@dataclasses.dataclass(frozen=True)
class AttentionTo(AbstractPatternProbe):
    """Mean attention mass on the keys of each relation, by layer and head, in [0, 1].

        mass(l, h, r) = mean over scored q of sum_{k in r(q)} A^{l,h}_{qk}
        along(l, h, r) = the same mean over {q : r(q) not empty}, wherever the relation starts
        uniform(r) = the value of along for attention that is the same to all keys up to the query

    `mass` is what a prediction reads. `along` also sees what earlier positions do: copying heads (value to key) and
    previous-token heads, beside selection or induction heads (query to value). Both are means over the sequences in
    which the relation starts somewhere; one that starts in none has no row.

    Args:
        relations: names of the batch's relations; None for all.

    Source: Yüksel et al. (2026), arXiv:2602.19143, the span mass of Figure B (deviation: all scored queries are
    averaged, the paper's code takes the last one); Zucchet et al. (2025), arXiv:2505.17863, the copying and selection
    scores of Figure 17.

    >>> from stagewise.probe import example_view
    >>> itself = {"self": [[1, 0], [0, 1]]}
    >>> view = example_view([[[1, 0], [0.25, 0.75]]], scored=[False, True], relations=itself)
    >>> [(reading.quantity, reading.values.item()) for reading in AttentionTo().read(view)]
    [('mass', 0.75), ('along', 0.875), ('uniform', 0.75)]
    """

    quantities = {
        "mass": Quantity("attention mass", range=(0, 1), progress="up", unless="along", role="attention"),
        "along": Quantity("attention mass along the relation", range=(0, 1), progress="up", role="attention along"),
        "uniform": Quantity("attention mass of uniform attention", range=(0, 1), role="uniform attention"),
    }
    reads_predictions = False

    relations: tuple[str, ...] | None = None

    def read(self, view: View) -> list[Reading]:
        """Return `mass` and `along` by layer, head and relation, and `uniform` by relation."""
        batch = view.batch
        names = chosen(self.relations, batch.relations, "relation")
        axes, labels, exists = "batch layer head relation", {"relation": names}, view.having(names)
        mass = torch.stack([mean_scored(view.masses[name], batch.scored) for name in names], -1)
        along = torch.stack([mean_scored(view.masses[name], batch.having_keys[name]) for name in names], -1)
        up_to = torch.arange(1, batch.tokens.shape[1] + 1, device=batch.tokens.device)  # keys of each query
        even = [mean_scored(batch.relations[name].tril().sum(-1) / up_to, batch.having_keys[name]) for name in names]
        uniform, starts = torch.stack(even, -1), None
        if exists is not None:
            starts = exists[:, 0, 0]  # of no query is no mean
            along, uniform = torch.where(exists, along, 0.0), torch.where(starts, uniform, 0.0)
        return [
            Reading(axes, mass, "mass", labels, exists=exists),
            Reading(axes, along, "along", labels, exists=exists),
            Reading("batch relation", uniform, "uniform", labels, exists=starts),
        ]
