"""The loss on the probe batch, and its excess over the complete solution's."""

import dataclasses

from stagewise.loss import cross_entropy, mean_scored
from stagewise.probe import AbstractProbe, Quantity, Reading, View


@dataclasses.dataclass(frozen=True)
class Loss(AbstractProbe):
    """Cross-entropy of the scored predictions, and its excess over that of the batch's last (complete) reference.

    Both in nats. The excess is left out where the batch has no references. For a regression it is half the squared
    error, and that of the complete solution is zero.

    Source: Yüksel et al. (2026), arXiv:2602.19143, the excess loss of Figures 4 and 5.

    >>> from stagewise.probe import example_view
    >>> view = example_view(probs=[[0.5, 0.5]], targets=[1], references={"solution": [[0.25, 0.75]]})
    >>> [(reading.quantity, round(reading.values.item(), 4)) for reading in Loss().read(view)]  # log 2, log 3/2
    [('cross_entropy', 0.6931), ('excess', 0.4055)]
    """

    quantities = {
        "cross_entropy": Quantity("loss", "nats", (0, None), progress="down", onset="the loss falls", role="loss"),
        "excess": Quantity("excess loss", "nats", progress="down", unless="cross_entropy"),
        "squared_error": Quantity(
            "squared error / 2", range=(0, None), progress="down", onset="the loss falls", role="squared error"
        ),
    }
    reads_unscored = False

    def read(self, view: View) -> list[Reading]:
        """Return `cross_entropy` and `excess`, nats; of a regression `squared_error`."""
        batch = view.batch
        readings = [Reading("batch", view.loss, "squared_error" if batch.is_regression else "cross_entropy")]
        if batch.references and not batch.is_regression:
            *_, solution = batch.references.values()
            optimal = mean_scored(cross_entropy(solution, batch.targets), batch.scored)
            readings.append(Reading("batch", view.loss - optimal, "excess"))
        return readings
