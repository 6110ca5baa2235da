"""How far back each head looks on average."""

import dataclasses

import torch

from stagewise.probe import AbstractPatternProbe, Quantity, Reading, View


@dataclasses.dataclass(frozen=True)
class AttentionDistance(AbstractPatternProbe):
    """Mean distance in tokens from the scored queries to what they attend to, by layer and head; 0 is the query.

        distance(l, h) = mean_q sum_k A_qk (q - k)

    Source: Vig and Belinkov (2019), Analyzing the Structure of Attention in a Transformer Language Model,
    arXiv:1906.04284, section 4.2.

    >>> from stagewise.probe import example_view
    >>> view = example_view([[[1, 0, 0], [1, 0, 0], [0, 1, 0]]])
    >>> [reading] = AttentionDistance().read(view)
    >>> reading.values  # the first token has none before it: (0 + 1 + 1) / 3
    tensor([[[0.6667]]])
    """

    quantities = {"distance": Quantity("mean distance", "tokens", (0, None))}
    reads_predictions = False

    def read(self, view: View) -> list[Reading]:
        """Return `distance` in tokens by layer and head."""
        patterns = view.queries.patterns
        positions = torch.arange(patterns.shape[-1], device=patterns.device, dtype=patterns.dtype)
        distance = view.queries.position * patterns.sum(-1) - patterns @ positions  # a sink leaves less than one
        return [Reading("batch layer head", view.queries.mean(distance), "distance")]
