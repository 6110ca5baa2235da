"""How the loss depends on how much context there is."""

import dataclasses

from stagewise.loss import cross_entropy
from stagewise.probe import AbstractProbe, Reading, View


@dataclasses.dataclass(frozen=True)
class LossByPosition(AbstractProbe):
    """Cross-entropy of the prediction at each position, nats, whether it is scored or not.

    Source: Olsson et al. (2022), arXiv:2209.11895, the loss by token index.

    >>> LossByPosition()
    LossByPosition()
    """

    def read(self, view: View) -> list[Reading]:
        """Return `cross_entropy` in nats by position."""
        loss = cross_entropy(view.log_probs, view.batch.targets)
        return [Reading("batch position", loss, "cross_entropy", {"position": range(loss.shape[1])})]
