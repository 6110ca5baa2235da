"""The model's loss without each head, estimated for all heads at once from gradients."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
import torch
from scipy.stats import rankdata

from stagewise.architecture import Architecture
from stagewise.intervention import AblateHead, AttributeHeads
from stagewise.probe import AbstractProbe, Effects, Quantity, Reading, View

_RESOLUTION = 1e-7
"""Nats to which the change of a loss in float32 is known: what differs by less has one rank."""


@dataclasses.dataclass(frozen=True)
class HeadAttribution(AbstractProbe):
    """Estimated change of the loss (nats) when a head's output is replaced, and the exact one of the heads on top.

    The estimate of a head is the sum over positions and dimensions of (z' - z) dL/dz, where z is its output, z' what
    replaces it and L a sequence's mean loss over its scored positions: one backward pass for all heads. It is exact
    only where the loss is linear in z. How far it can be trusted is measured: the heads with the largest estimates, by
    size, are ablated one by one, and `rank_correlation` is Spearman's of both changes over these heads; no row where
    either change is the same for all of them, within rounding. The matched control of an ablation is `HeadAblation`'s.

    Args:
        kind: what replaces z: "mean" (over the batch, at each position) or "zero".
        steps: gradients that are averaged, at inputs of the first layer between the replaced and the clean one.
        top: how many heads are ablated.

    Source: Nanda (2023), Attribution Patching: Activation Patching At Industrial Scale; several steps as the integrated
    gradients of Hanna et al. (2024), Have Faith in Faithfulness, arXiv:2403.17806, which patches another prompt's
    activations: here the mean over the batch takes their place, and heads that of edges.

    >>> import torch
    >>> from stagewise.probe import example_view
    >>> view = example_view([[[1.0]], [[1.0]]])
    >>> estimates = {AttributeHeads("mean"): torch.tensor([[[0.5, -0.25]]])}
    >>> HeadAttribution().read(dataclasses.replace(view, attributed=estimates))
    [Reading(estimated_change: batch=1 layer=1 head=2)]
    """

    quantities = {
        "estimated_change": Quantity("estimated change of the loss", "nats"),
        "exact_change": Quantity("change of the loss, of the heads with the largest estimates", "nats"),
        "rank_correlation": Quantity("rank correlation of estimated and exact change", "", (-1, 1)),
    }
    reads_unscored = False

    kind: Literal["zero", "mean"] = "mean"
    steps: int = 1
    top: int = 8

    def __post_init__(self) -> None:
        AttributeHeads(self.kind, self.steps)  # raises where it is none
        if self.top < 2:
            raise ValueError(f"a rank correlation needs two heads or more, got top={self.top}")

    def attributions(self, architecture: Architecture) -> Iterable[AttributeHeads]:
        """List its one estimate."""
        return (AttributeHeads(self.kind, self.steps),)

    def read(self, view: View) -> list[Reading]:
        """Return `estimated_change` by layer and head."""
        estimates = view.attributed[AttributeHeads(self.kind, self.steps)]
        return [Reading("batch layer head", estimates, "estimated_change")]

    def further_readings(self, readings: Sequence[Reading], effects: Effects) -> list[Reading]:
        """Add `exact_change` of the heads whose estimates are largest, by size, and `rank_correlation`."""
        (estimates,) = readings
        mean = estimates.values.mean(0)
        largest = mean.abs().flatten().argsort(descending=True, stable=True)[: self.top]
        ablated = sorted(divmod(int(index), mean.shape[1]) for index in largest)
        exact = effects([(AblateHead(layer, head, self.kind),) for layer, head in ablated]).loss_change
        estimated = torch.stack([estimates.values[:, layer, head] for layer, head in ablated], 1)
        further = [estimates]
        for layer in dict.fromkeys(layer for layer, _ in ablated):
            chosen = [number for number, (other, _) in enumerate(ablated) if other == layer]
            labels = {"layer": [layer], "head": [ablated[number][1] for number in chosen]}
            further.append(Reading("batch layer head", exact[:, None, chosen], "exact_change", labels))
        both = torch.stack([estimated, exact], 1)
        if bool((both.mean(0).amax(-1) - both.mean(0).amin(-1) > _RESOLUTION).all()):
            further.append(Reading("batch", both, "rank_correlation", statistic=spearman))
        return further


def spearman(pairs: np.ndarray) -> np.ndarray:
    """Return Spearman's rank correlation of changes [..., 2, entry], nats; 0 where all of one are within `_RESOLUTION`.

    >>> spearman(np.array([[[1.0, 2.0, 3.0], [10.0, 20.0, 15.0]], [[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]]))
    array([0.5, 0. ])
    """
    ranks = rankdata(np.round(pairs / _RESOLUTION), axis=-1)
    centred = ranks - ranks.mean(-1, keepdims=True)
    norms = np.sqrt((centred**2).sum(-1)).prod(-1)
    products = centred.prod(-2).sum(-1)
    correlation: np.ndarray = np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)
    return correlation
