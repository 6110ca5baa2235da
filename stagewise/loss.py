"""Losses and divergences in nats, and their mean over the scored predictions."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor


def cross_entropy(log_probs: Float[Tensor, "*axes token"], targets: Int[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
    """Return -log q(target) of every prediction, in nats."""
    return -log_probs.gather(-1, targets[..., None])[..., 0]


def squared_error(
    outputs: Float[Tensor, "*axes output"], targets: Float[Tensor, "*axes output"]
) -> Float[Tensor, "*axes"]:
    """Return half the squared distance of each prediction to its target vector."""
    return ((outputs - targets) ** 2).sum(-1) / 2


def training_loss(
    outputs: Float[Tensor, "prediction output"],
    targets: Int[Tensor, " prediction"] | Float[Tensor, "prediction output"],
) -> Float[Tensor, ""]:
    """Return the loss of training: cross-entropy (nats) of logits, half the squared error of target vectors."""
    if targets.is_floating_point():
        return squared_error(outputs, targets).mean()
    return F.cross_entropy(outputs, targets)


def prediction_loss(
    predictions: Float[Tensor, "*axes token"], targets: Int[Tensor, "*axes"] | Float[Tensor, "*axes token"]
) -> Float[Tensor, "*axes"]:
    """Return the loss of each prediction: cross-entropy of log-probabilities, half the squared error of vectors.

    Both are -log q(target) in nats, of vectors up to a constant: that of a Gaussian of unit variance around the output.
    """
    if targets.is_floating_point():
        return squared_error(predictions, targets)
    return cross_entropy(predictions, targets)


def divergence(
    p: Float[Tensor, "*axes token"], q: Float[Tensor, "*axes token"], *, regression: bool
) -> Float[Tensor, "*axes"]:
    """Return KL(p || q) in nats of two predictions, log-probabilities or, of a regression, vectors.

    A vector is the mean of a Gaussian of unit variance. KL(N(a, 1) || N(b, 1)) = |a - b|^2 / 2, half the squared
    distance, is symmetric.

    >>> divergence(torch.tensor([3.0, 0.0]), torch.tensor([0.0, 4.0]), regression=True)
    tensor(12.5000)
    """
    return squared_error(p, q) if regression else kl_divergence(p, q)


def kl_divergence(p: Float[Tensor, "*axes token"], q: Float[Tensor, "*axes token"]) -> Float[Tensor, "*axes"]:
    """Return KL(p || q) = sum_x p(x) (log p(x) - log q(x)) in nats, from log-probabilities.

    >>> half = torch.tensor([0.5, 0.5]).log()
    >>> round(kl_divergence(half, torch.tensor([0.25, 0.75]).log()).item(), 4)
    0.1438
    """
    probs = p.exp()
    # 0 log 0 = 0 on both sides: without the mask a token that both distributions exclude would give 0 * nan.
    return (probs * (p - q).masked_fill(probs == 0, 0.0)).sum(-1)


def mean_scored(
    values: Float[Tensor, "batch *axes pos"], scored: Bool[Tensor, "batch pos"]
) -> Float[Tensor, "batch *axes"]:
    """Average each sequence's values over its scored positions (the last axis).

    >>> mean_scored(torch.tensor([[1.0, 2.0, 6.0]]), torch.tensor([[False, True, True]]))
    tensor([4.])
    """
    shape = (scored.shape[0], *(1,) * (values.ndim - 2), scored.shape[1])
    counted = torch.where(scored.view(shape), values, 0.0)
    return counted.sum(-1) / scored.sum(-1).view(shape[:-1])


def mean_of_rows(values: Float[Tensor, " scored"], scored: Bool[Tensor, "batch pos"]) -> Float[Tensor, " batch"]:
    """Average each sequence's values, which are given of the scored positions alone, one a row in their order."""
    placed = values.new_zeros(scored.shape)
    placed[scored] = values
    return mean_scored(placed, scored)


@dataclasses.dataclass(frozen=True, eq=False)
class ScoredPredictions:
    """The scored predictions of a clean pass, one a row, to compare edited passes with as their logits come.

    Args:
        expected: of a regression the outputs, otherwise the probabilities.
        negative_entropy: sum of p log p, nats; zero for a regression.
        targets: of each row.
        sequence: that each row belongs to.
        counts: how many rows each sequence has.
    """

    expected: Float[Tensor, "scored token"]
    negative_entropy: Float[Tensor, " scored"]
    targets: Int[Tensor, " scored"] | Float[Tensor, "scored token"]
    sequence: Int[Tensor, " scored"]
    counts: Int[Tensor, " batch"]

    @classmethod
    def of(
        cls,
        rows: Float[Tensor, "scored token"],
        targets: Int[Tensor, "batch pos"] | Float[Tensor, "batch pos token"],
        scored: Bool[Tensor, "batch pos"],
    ) -> "ScoredPredictions":
        """Take the scored predictions: log-probabilities (nats), or the outputs of a regression."""
        sequence = scored.nonzero()[:, 0]
        if targets.is_floating_point():
            return cls(rows, rows.new_zeros(len(rows)), targets[scored], sequence, scored.sum(1))
        probs = rows.exp()
        return cls(probs, torch.xlogy(probs, probs).sum(-1), targets[scored], sequence, scored.sum(1))

    def repeated(self, times: int) -> "ScoredPredictions":
        """Return these predictions so many times, one behind the other, each time of further sequences."""
        which = torch.arange(times, device=self.sequence.device).repeat_interleave(len(self.sequence))
        return ScoredPredictions(
            self.expected.repeat(times, 1),
            self.negative_entropy.repeat(times),
            self.targets.repeat(times, *[1] * (self.targets.ndim - 1)),
            self.sequence.repeat(times) + which * len(self.counts),
            self.counts.repeat(times),
        )

    def compare(
        self, blocks: Iterable[Float[Tensor, "row token"]]
    ) -> tuple[Float[Tensor, " batch"], Float[Tensor, " batch"]]:
        """Return the mean loss of each sequence under other predictions, and their mean KL(these || those), nats.

        A regression has half the squared error and half the squared distance: see `divergence`.

        Args:
            blocks: of consecutive rows, logits (or log-probabilities, or outputs); each is read at once.
        """
        losses, divergences, start = [], [], 0
        for block in blocks:
            rows = slice(start, start + len(block))
            expected, targets, start = self.expected[rows], self.targets[rows], start + len(block)
            if targets.is_floating_point():
                losses.append(squared_error(block, targets))
                divergences.append(squared_error(expected, block))
            else:
                found = block.log_softmax(-1)
                losses.append(-found.gather(-1, targets[:, None])[:, 0])
                cross = torch.linalg.vecdot(expected, found)
                if bool(cross.isnan().any()):  # 0 * -inf: a token that both exclude has no part in the sum
                    cross = torch.linalg.vecdot(expected, found.masked_fill(expected == 0, 0.0))
                divergences.append(self.negative_entropy[rows] - cross)
        return self._mean(torch.cat(losses)), self._mean(torch.cat(divergences))

    def loss(self, logits: Float[Tensor, "scored token"]) -> Float[Tensor, " batch"]:
        """Return the mean loss of each sequence under other logits (or outputs); gradients flow back."""
        if self.targets.is_floating_point():
            return self._mean(squared_error(logits, self.targets))
        return self._mean(F.cross_entropy(logits, self.targets, reduction="none"))

    def _mean(self, values: Float[Tensor, " scored"]) -> Float[Tensor, " batch"]:
        return values.new_zeros(len(self.counts)).index_add_(0, self.sequence, values) / self.counts


class Effect(NamedTuple):
    """The effect of an edit on each sequence.

    Args:
        loss_change: of the mean loss of the scored predictions, nats; of a regression half the squared error.
        kl: mean KL(clean || edited) of the scored predictions, nats; of a regression half the squared distance.
    """

    loss_change: Float[Tensor, "batch *edit"]
    kl: Float[Tensor, "batch *edit"]


@dataclasses.dataclass(frozen=True, eq=False)
class EditedPass:
    """The effect of an edit, reduced to a number a sequence: the predictions themselves are not kept.

    Args:
        loss: mean loss of the scored predictions, nats; of a regression half the squared error.
        kl: mean KL(clean || edited) of the scored predictions, nats; of a regression half the squared distance.
        run: runs the pass again and returns its predictions.
        difference: the logit difference of prompts, nats; None of other batches.
    """

    loss: Float[Tensor, " batch"]
    kl: Float[Tensor, " batch"]
    run: Callable[[], Float[Tensor, "scored token"]]
    difference: Float[Tensor, " batch"] | None = None

    @property
    def log_probs(self) -> Float[Tensor, "scored token"]:
        """The scored predictions, in the order of `batch.scored`: log-probabilities in nats, or outputs. Run anew."""
        return self.run()
