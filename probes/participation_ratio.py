"""In how many directions each head's output varies."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import ClassVar

import torch
from einops import rearrange

from stagewise.architecture import Architecture
from stagewise.probe import AbstractProbe, Quantity, Reading, View


@dataclasses.dataclass(frozen=True)
class ParticipationRatio(AbstractProbe):
    """Effective dimension of a head's output z over the scored positions, by layer and head: from 1 to d_head.

        PR(l, h) = (tr C)^2 / tr C^2,   C the covariance of z

    A head whose output does not vary at all has 0. Without interval: the covariance is of the whole batch.

    Source: Gao et al. (2017), A theory of multineuronal dimensionality, dynamics and measurement, bioRxiv 214262.

    The corners of a square vary equally in two directions:

    >>> from stagewise.probe import example_view
    >>> z = {"blocks.0.attn.hook_z": [[[1, 0]], [[-1, 0]], [[0, 1]], [[0, -1]]]}
    >>> [reading] = ParticipationRatio().read(example_view(tokens=[0, 1, 2, 3], activations=z))
    >>> reading.values
    tensor([[2.]], dtype=torch.float64)
    """

    quantities: ClassVar[Mapping[str, Quantity]] = {
        "dimensions": Quantity("effective dimension of the output", range=(0, None)),
    }

    def hooks(self, architecture: Architecture) -> Iterable[str]:
        """Name z of all layers."""
        return [f"blocks.{layer}.attn.hook_z" for layer in range(architecture.n_layers)]

    def read(self, view: View) -> list[Reading]:
        """Return `dimensions` by layer and head."""
        z = torch.stack([view.activations[name] for name in self.hooks(view.architecture)])
        outputs = rearrange(z[:, view.batch.scored], "layer query head d_head -> layer head query d_head").double()
        centred = outputs - outputs.mean(2, keepdim=True)
        covariance = centred.mT @ centred
        trace = covariance.diagonal(dim1=-2, dim2=-1).sum(-1)
        ratio = torch.where(trace > 0, trace**2 / covariance.square().sum((-2, -1)), 0.0)
        return [Reading("layer head", ratio, "dimensions")]
