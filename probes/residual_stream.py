"""How alike the positions of a sequence are in the residual stream, and in how many directions they vary."""

import dataclasses
from collections.abc import Iterable

import torch
import torch.nn.functional as F

from stagewise.architecture import Architecture
from stagewise.attention import residual_hooks_of
from stagewise.probe import AbstractProbe, Quantity, Reading, View
from stagewise.probes.participation_ratio import participation_ratio, products_of


@dataclasses.dataclass(frozen=True)
class ResidualStream(AbstractProbe):
    """Mean cosine of the residual vectors at two positions of a sequence, and the effective dimension of all of them.

        cosine(l) = mean over positions s != t of <x_s, x_t> / (|x_s| |x_t|)
        dimensions(l) = (tr C)^2 / tr C^2,   C the covariance of x over sequences and scored positions

    Layer l is the stream in front of layer l, l = n_layers what the last one leaves. A cosine of 1 is collapse: every
    position holds the same. A sequence of one position has no two, and no cosine.

    Source: Dong et al. (2021), Attention Is Not All You Need, arXiv:2103.03404, for the collapse; Gao et al. (2017),
    bioRxiv 214262, for the dimension.

    >>> from stagewise.probe import example_view
    >>> streams = {"blocks.0.hook_resid_pre": [[1, 0], [0, 1]], "blocks.0.hook_resid_post": [[1, 1], [2, 2]]}
    >>> view = example_view(tokens=[0, 1], activations=streams)
    >>> ResidualStream().read(view)[0].values  # at right angles in front of the layer, parallel behind it
    tensor([[0.0000, 1.0000]])
    """

    quantities = {
        "cosine": Quantity("mean cosine of two positions", range=(-1, 1)),
        "dimensions": Quantity("effective dimension of the residual stream", range=(0, None)),
    }
    reads_predictions = False

    def hooks(self, architecture: Architecture) -> Iterable[str]:
        """Name the residual stream at every layer."""
        return residual_hooks_of(architecture.n_layers)

    def read(self, view: View) -> list[Reading]:
        """Return `cosine` and `dimensions` by layer."""
        names = residual_hooks_of(view.architecture.n_layers)
        streams = torch.stack([view.activations[name] for name in names])
        labels, n = {"layer": range(len(names))}, streams.shape[2]
        products = products_of(streams[:, view.batch.scored], len(view.batch))
        readings = [Reading("layer", products, "dimensions", labels, statistic=participation_ratio, means=True)]
        if n > 1:
            total = F.normalize(streams, dim=-1).sum(2).square().sum(-1)
            cosine = ((total - n) / (n * (n - 1))).clamp(-1, 1)
            readings.insert(0, Reading("batch layer", cosine.T, "cosine", labels))
        return readings
