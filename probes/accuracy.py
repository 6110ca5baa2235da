"""How often the most likely token is the target."""

import dataclasses

from stagewise.loss import mean_of_rows
from stagewise.probe import AbstractProbe, Quantity, Reading, View


@dataclasses.dataclass(frozen=True)
class Accuracy(AbstractProbe):
    """Share of the scored predictions whose most likely token is the target; in [0, 1].

    Source: Zucchet et al. (2025), arXiv:2505.17863, the test accuracy of Figures 4 and 5.

    >>> from stagewise.probe import example_view
    >>> view = example_view(probs=[[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]], targets=[0, 1, 1])
    >>> [reading] = Accuracy().read(view)
    >>> reading.values
    tensor([0.6667])
    """

    quantities = {
        "accuracy": Quantity("accuracy", range=(0, 1), progress="up", onset="accuracy rises", role="accuracy"),
    }
    reads_unscored = False

    def read(self, view: View) -> list[Reading]:
        """Return `accuracy`."""
        batch = view.batch
        if batch.is_regression:
            raise ValueError("a regression has no most likely token: measure Loss instead")
        correct = (view.scored_log_probs.argmax(-1) == batch.targets[batch.scored]).float()
        return [Reading("batch", mean_of_rows(correct, batch.scored), "accuracy")]
