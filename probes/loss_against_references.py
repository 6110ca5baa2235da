"""Whether the model predicts better than each partial solution."""

import dataclasses

import torch

from stagewise.loss import mean_scored, prediction_loss
from stagewise.probe import AbstractProbe, Quantity, Reading, View, chosen


@dataclasses.dataclass(frozen=True)
class LossAgainstReferences(AbstractProbe):
    """The cross-entropy of each reference on the batch's own targets, and the model's less it; nats.

    For a regression, half the squared error.

        gap(r) = mean_t ( log p_r(x_{t+1}) - log q(x_{t+1}) ),   below zero where the model predicts better than r

    Both are of the same predictions, so the interval of the gap is that of a paired difference. `Loss` does it for the
    complete solution; here no reference needs to be complete: n-gram models of a text, for example.

    Args:
        references: names of the batch's references; None for all.

    Source: the n-gram losses that Olsson et al. (2022), arXiv:2209.11895, compare language models with.

    >>> from stagewise.probe import example_view
    >>> view = example_view(probs=[[0.25, 0.75]], targets=[1], references={"guess": [[0.5, 0.5]]})
    >>> [(reading.quantity, reading.values) for reading in LossAgainstReferences().read(view)]  # log 2, log 2/3
    [('cross_entropy', tensor([[0.6931]])), ('gap', tensor([[-0.4055]]))]
    """

    quantities = {
        "cross_entropy": Quantity("loss of the reference", "nats", (0, None)),
        "squared_error": Quantity("squared error / 2 of the reference", range=(0, None)),
        "gap": Quantity("loss less the reference's", "nats"),
    }
    reads_unscored = False

    references: tuple[str, ...] | None = None

    def read(self, view: View) -> list[Reading]:
        """Return `cross_entropy` (of a regression `squared_error`) and `gap` by reference."""
        batch = view.batch
        names = chosen(self.references, batch.references, "reference")
        each = (prediction_loss(batch.references[name], batch.targets) for name in names)
        losses = torch.stack([mean_scored(loss, batch.scored) for loss in each], -1)
        labels, quantity = {"reference": names}, "squared_error" if batch.is_regression else "cross_entropy"
        return [
            Reading("batch reference", losses, quantity, labels),
            Reading("batch reference", view.loss[:, None] - losses, "gap", labels),
        ]
