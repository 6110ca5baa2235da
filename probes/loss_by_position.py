"""How the loss depends on the position, that is on the length of the context."""

import dataclasses

from stagewise.loss import prediction_loss
from stagewise.probe import AbstractProbe, Quantity, Reading, View


@dataclasses.dataclass(frozen=True)
class LossByPosition(AbstractProbe):
    """Cross-entropy of the prediction at each position, nats, whether it is scored or not.

    For a regression, half the squared error, at the positions that are scored in every sequence: others have no target.

    Source: Olsson et al. (2022), arXiv:2209.11895, the loss by token index.

    >>> from stagewise.probe import example_view
    >>> [reading] = LossByPosition().read(example_view(probs=[[0.5, 0.5], [0.25, 0.75]], targets=[0, 1]))
    >>> reading.values  # log 2, log 4/3
    tensor([[0.6931, 0.2877]])
    """

    quantities = {
        "cross_entropy": Quantity("loss", "nats", (0, None), role="loss by position"),
        "squared_error": Quantity("squared error / 2", range=(0, None)),
    }

    def read(self, view: View) -> list[Reading]:
        """Return `cross_entropy` in nats, of a regression `squared_error`, by position."""
        loss = prediction_loss(view.log_probs, view.batch.targets)
        if not view.batch.is_regression:
            return [Reading("batch position", loss, "cross_entropy", {"position": range(loss.shape[1])})]
        positions = view.batch.scored.all(0).nonzero()[:, 0].tolist()
        return [Reading("batch position", loss[:, positions], "squared_error", {"position": positions})]
