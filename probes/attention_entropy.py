"""How widely each head attends."""

import dataclasses

import torch

from stagewise.probe import AbstractPatternProbe, Quantity, Reading, View


@dataclasses.dataclass(frozen=True)
class AttentionEntropy(AbstractPatternProbe):
    """Entropy of the attention over the keys, averaged over the scored queries, by layer and head.

        H(l, h) = mean_q - sum_k A_qk log A_qk   (nats);   exp(H) keys would hold uniform attention of that entropy

    Source: Shannon's entropy of an attention row, as in Zhai et al. (2023), Stabilizing Transformer Training by
    Preventing Attention Entropy Collapse, arXiv:2303.06296.

    >>> from stagewise.probe import example_view
    >>> [reading] = AttentionEntropy().read(example_view([[[1, 0], [0.5, 0.5]]]))
    >>> reading.values  # (0 + log 2) / 2
    tensor([[[0.3466]]])
    """

    quantities = {"entropy": Quantity("entropy of attention", "nats", (0, None))}
    reads_predictions = False

    def read(self, view: View) -> list[Reading]:
        """Return `entropy` in nats by layer and head."""
        entropy = torch.special.entr(view.queries.patterns).sum(-1)
        return [Reading("batch layer head", view.queries.mean(entropy), "entropy")]
