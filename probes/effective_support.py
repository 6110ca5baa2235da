"""How many keys each head attends to."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from stagewise.probe import AbstractPatternProbe, Quantity, Reading, View


@dataclasses.dataclass(frozen=True)
class EffectiveSupport(AbstractPatternProbe):
    """Effective number of keys of the scored queries, by layer and head: from 1, a single key, to all keys.

        keys(l, h) = mean_q 1 / sum_k A_qk^2

    Source: the inverse Simpson index; Hill (1973), Diversity and evenness: a unifying notation, Ecology 54, N_2.

    >>> from stagewise.probe import example_view
    >>> [reading] = EffectiveSupport().read(example_view([[[1, 0], [0.5, 0.5]]]))
    >>> reading.values  # one key and two
    tensor([[[1.5000]]])
    """

    quantities: ClassVar[Mapping[str, Quantity]] = {
        "keys": Quantity("effective number of keys", range=(1, None)),
    }

    def read(self, view: View) -> list[Reading]:
        """Return `keys` by layer and head."""
        support = 1 / view.queries.patterns.square().sum(-1)
        return [Reading("batch layer head", view.queries.mean(support), "keys")]
