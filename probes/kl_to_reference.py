"""How far the model is from each partial solution."""

import dataclasses

import torch

from stagewise.loss import divergence, mean_of_rows
from stagewise.probe import AbstractProbe, Quantity, Reading, View, chosen


@dataclasses.dataclass(frozen=True)
class KLToReference(AbstractProbe):
    """KL(reference || model) in nats, averaged over the scored predictions, for the batch's references.

        KL(A*_{1:i} || model) = mean_t sum_x p_i(x) (log p_i(x) - log q(x))

    For a regression, half the squared distance of the outputs: see `loss.divergence`.

    The references are a task's truncated references, and any others given by `Batch.with_references`: separately
    trained restricted-context models, for example. The smallest one does not identify the stage: a truncated reference
    is over-confident, so A*_1:2 can be closer than A*_1 while the model has learned I(1) only. The turning point of
    each curve, its minimum, does.

    Args:
        references: names of the batch's references; None for all.

    Source: Yüksel et al. (2026), arXiv:2602.19143, Figures 1 and 3.

    >>> from stagewise.probe import example_view
    >>> view = example_view(probs=[[0.25, 0.75]], references={"guess": [[0.5, 0.5]]})
    >>> [reading] = KLToReference().read(view)
    >>> reading.labels["reference"], reading.values  # log 2 - log(3) / 2
    (['guess'], tensor([[0.1438]]))
    """

    quantities = {"kl": Quantity("KL(reference ‖ model)", "nats", (0, None), role="KL to references")}
    reads_unscored = False

    references: tuple[str, ...] | None = None

    def read(self, view: View) -> list[Reading]:
        """Return `kl` in nats by reference."""
        batch, scored = view.batch, view.batch.scored
        names = chosen(self.references, batch.references, "reference")
        predicted, kind = view.scored_log_probs, batch.is_regression
        each = (divergence(batch.references[name][scored], predicted, regression=kind) for name in names)
        means = [mean_of_rows(divergences, scored) for divergences in each]
        return [Reading("batch reference", torch.stack(means, -1), "kl", {"reference": names})]
