"""Whether the model copies repeated tokens from its context."""

import dataclasses
import math

from stagewise.loss import cross_entropy, mean_scored
from stagewise.probe import AbstractProbe, Quantity, Reading, View


@dataclasses.dataclass(frozen=True)
class Copying(AbstractProbe):
    """How well scored tokens are predicted, and how much better than the others: for `RepeatedTokens`.

    - `accuracy`: the share of scored predictions whose most likely token is the target, in [0, 1].
    - `gain`: mean loss of the positions that are not scored less that of those that are, nats. On repeated random
      tokens the first can only be guessed, so all of the gain is copying. A guess costs log(d_vocab) at most: a model
      that was never trained to predict these positions may lose more there, which is no gain.

    Raises:
        ValueError: every position is scored, so that there is nothing to compare with; or a regression.

    Source: the repeated random sequences of Olsson et al. (2022), arXiv:2209.11895; the two numbers are this
    library's.

    >>> from stagewise.probe import example_view
    >>> view = example_view(probs=[[0.5, 0.5], [0, 1]], targets=[0, 1], scored=[False, True])
    >>> [(reading.quantity, round(reading.values.item(), 4)) for reading in Copying().read(view)]  # log 2
    [('accuracy', 1.0), ('gain', 0.6931)]
    """

    quantities = {
        "accuracy": Quantity("accuracy of copying", range=(0, 1), progress="up", onset="copying begins, accuracy"),
        "gain": Quantity("gain of copying", "nats", progress="up", onset="copying begins, gain", nothing=0),
    }

    def read(self, view: View) -> list[Reading]:
        """Return `accuracy` and `gain`."""
        batch = view.batch
        if batch.is_regression:
            raise ValueError("a regression has no tokens to copy: measure Loss instead")
        if bool(batch.scored.all(1).any()):
            raise ValueError("Copying compares scored with other positions; this batch has sequences without others")
        correct = (view.log_probs.argmax(-1) == batch.targets).to(view.log_probs.dtype)
        loss = cross_entropy(view.log_probs, batch.targets)
        guess = mean_scored(loss, ~batch.scored).clamp(max=math.log(view.log_probs.shape[-1]))
        gain = guess - mean_scored(loss, batch.scored)
        return [Reading("batch", mean_scored(correct, batch.scored), "accuracy"), Reading("batch", gain, "gain")]
