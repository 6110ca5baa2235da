"""How the loss depends on how much context there is."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from stagewise.loss import cross_entropy
from stagewise.probe import AbstractProbe, Quantity, Reading, View


@dataclasses.dataclass(frozen=True)
class LossByPosition(AbstractProbe):
    """Cross-entropy of the prediction at each position, nats, whether it is scored or not.

    Source: Olsson et al. (2022), arXiv:2209.11895, the loss by token index.

    >>> LossByPosition()
    LossByPosition()
    """

    quantities: ClassVar[Mapping[str, Quantity]] = {
        "cross_entropy": Quantity("loss", "nats", (0, None)),
    }

    def read(self, view: View) -> list[Reading]:
        """Return `cross_entropy` in nats by position."""
        loss = cross_entropy(view.log_probs, view.batch.targets)
        return [Reading("batch position", loss, "cross_entropy", {"position": range(loss.shape[1])})]
