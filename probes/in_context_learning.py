"""How much better late tokens are predicted than early ones."""

import dataclasses
import math

import torch

from stagewise.loss import prediction_loss
from stagewise.probe import AbstractProbe, Quantity, Reading, View


@dataclasses.dataclass(frozen=True)
class InContextLearning(AbstractProbe):
    """The in-context learning score: loss at a late position less the loss at an early one, nats; negative is better.

    At a position that is not scored nobody may have trained the model: its loss counts as that of a guess at most.

    Args:
        early: position, from 0; None takes a tenth of the batch's positions, the paper's 50th of 512 tokens.
        late: position; None takes the last one.

    Raises:
        ValueError: the batch has no such positions, or early is not before late; or a regression has no targets there.

    Source: Olsson et al. (2022), arXiv:2209.11895, the 500th less the 50th token.

    >>> from stagewise.probe import example_view
    >>> view = example_view(probs=[[0.5, 0.5], [0.25, 0.75]], targets=[0, 1])
    >>> [reading] = InContextLearning().read(view)
    >>> reading.values  # log 4/3 - log 2
    tensor([-0.4055])
    """

    quantities = {
        "score": Quantity(
            "in-context learning score", "nats", progress="down", onset="the in-context learning score falls", nothing=0
        ),
    }

    early: int | None = None
    late: int | None = None

    def read(self, view: View) -> list[Reading]:
        """Return `score` in nats."""
        loss = prediction_loss(view.log_probs, view.batch.targets)
        last = loss.shape[1] - 1
        early = last // 10 if self.early is None else self.early
        late = last if self.late is None else self.late
        if not 0 <= early < late <= last:
            raise ValueError(f"expected 0 <= early < late <= {last}, the batch's last position; got {early} and {late}")
        if view.batch.is_regression and not bool(view.batch.scored[:, [early, late]].all()):
            raise ValueError(
                f"a regression has targets at its scored positions alone, positions {early} and {late} are not: choose "
                "others, or leave InContextLearning out for this task"
            )
        if not view.batch.is_regression:
            loss = torch.where(view.batch.scored, loss, loss.clamp(max=math.log(view.log_probs.shape[-1])))
        return [Reading("batch", loss[:, late] - loss[:, early], "score")]
