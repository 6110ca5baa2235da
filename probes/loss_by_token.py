"""How the loss depends on the kind of token that is predicted: what the mean over all predictions hides."""

import dataclasses

import torch

from stagewise.loss import prediction_loss
from stagewise.prediction_classes import prediction_classes
from stagewise.probe import AbstractProbe, Quantity, Reading, View


@dataclasses.dataclass(frozen=True)
class LossByToken(AbstractProbe):
    """Cross-entropy of classes of the scored predictions, nats; a prediction is in several.

    The classes are the target token; the position, in ranges that double; for each relation whether the position has
    keys in it; and the longest n-gram, the target last, that came before in its sequence. Each curve is searched for
    onsets as the mean loss is, so that a transition of a class which is too rare to move the mean is found.

    Args:
        tokens: targets that are a class each; None takes every token of a vocabulary of up to `most`, none of a larger.
        most: size of such a vocabulary.

    Raises:
        ValueError: a regression, or input vectors.

    Source: that the mean hides transitions of groups of tokens is shown by Kangaslahti et al. (2025),
    arXiv:2506.15872, who cluster single curves. The classes are this library's; those that change together are one
    transition.

    >>> from stagewise.probe import example_view
    >>> [reading] = LossByToken().read(example_view(probs=[[0.5, 0.5], [0.25, 0.75]], targets=[1, 0]))
    >>> dict(zip(reading.labels["predictions"], reading.values[0].tolist(), strict=True))["of token 1"]  # log 2
    0.6931471824645996
    """

    quantities = {
        "cross_entropy": Quantity("loss", "nats", (0, None), progress="down", onset="are learned", role="loss by class")
    }

    tokens: tuple[int, ...] | None = None
    most: int = 64

    def read(self, view: View) -> list[Reading]:
        """Return `cross_entropy` in nats, by class of predictions."""
        batch, d_vocab = view.batch, view.log_probs.shape[-1]
        if batch.is_regression:
            raise ValueError("a regression predicts no token: measure Loss instead")
        tokens = self.tokens if self.tokens is not None else range(d_vocab if d_vocab <= self.most else 0)
        classes = prediction_classes(batch, tokens)
        members = torch.stack(list(classes.values()), 1) & batch.scored[:, None]
        loss, number = prediction_loss(view.log_probs, batch.targets)[:, None], members.sum(-1)
        means = torch.where(members, loss, 0.0).sum(-1) / number.clamp(min=1)
        return [Reading("batch predictions", means, "cross_entropy", {"predictions": list(classes)}, exists=number > 0)]
