"""How many keys each head attends to."""

import dataclasses

import torch

from stagewise.probe import AbstractPatternProbe, Quantity, Reading, View


@dataclasses.dataclass(frozen=True)
class EffectiveSupport(AbstractPatternProbe):
    """Effective number of keys of the scored queries, by layer and head: from 1, a single key, to all keys.

        keys(l, h) = mean_q (sum_k A_qk)^2 / sum_k A_qk^2

    Where an attention sink takes a share of a query, this is of the rest; where it takes all, 0.

    Source: the inverse Simpson index; Hill (1973), Diversity and evenness: a unifying notation, Ecology 54, N_2.

    >>> from stagewise.probe import example_view
    >>> [reading] = EffectiveSupport().read(example_view([[[1, 0], [0.5, 0.5]]]))
    >>> reading.values  # one key and two
    tensor([[[1.5000]]])
    """

    quantities = {"keys": Quantity("effective number of keys", range=(0, None))}
    reads_predictions = False

    def read(self, view: View) -> list[Reading]:
        """Return `keys` by layer and head."""
        patterns = view.queries.patterns
        total = patterns.sum(-1, keepdim=True).clamp(min=torch.finfo(patterns.dtype).tiny)
        squares = (patterns / total).square().sum(-1)
        support = torch.where(squares > 0, 1 / squares, 0.0)
        return [Reading("batch layer head", view.queries.mean(support), "keys")]
