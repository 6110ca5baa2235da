"""In how many directions each head's output varies."""

import dataclasses
from collections.abc import Iterable

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from stagewise.architecture import Architecture
from stagewise.attention import hooks_of
from stagewise.probe import AbstractProbe, Quantity, Reading, View

_ROUNDING = 1e-12
"""Variance, over the mean square, that rounding leaves of an output that does not vary."""


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
    >>> participation_ratio(reading.values.numpy())
    array([[2.]])
    """

    quantities = {"dimensions": Quantity("effective dimension of the output", range=(0, None))}
    reads_predictions = False

    def hooks(self, architecture: Architecture) -> Iterable[str]:
        """Name z of all layers."""
        return hooks_of("attn.hook_z", architecture.n_layers)

    def read(self, view: View) -> list[Reading]:
        """Return `dimensions` by layer and head."""
        layers = (view.activations[name][view.batch.scored] for name in self.hooks(view.architecture))
        products = [
            products_of(rearrange(z, "query head d_head -> head query d_head"), len(view.batch)) for z in layers
        ]
        return [Reading("layer head", torch.stack(products), "dimensions", statistic=participation_ratio, means=True)]


def products_of(vectors: Float[Tensor, "*axes vector d"], sequences: int) -> Float[Tensor, "*axes row column"]:
    """Return the mean products of vectors over so many sequences, from which `participation_ratio` is read."""
    # As if each had a one beside it: the products hold the vectors' number and their sum too, and slices add up.
    vectors = vectors.double()
    total, number = vectors.sum(-2, keepdim=True), vectors.new_full((*vectors.shape[:-2], 1, 1), vectors.shape[-2])
    upper = torch.cat([vectors.mT @ vectors, total.mT], -1)
    return torch.cat([upper, torch.cat([total, number], -1)], -2) / sequences


def participation_ratio(products: np.ndarray) -> np.ndarray:
    """Return (tr C)^2 / tr C^2 from the mean products of vectors and one: [... row column]."""
    number, total = products[..., -1:, -1:], products[..., :-1, -1:]
    covariance = products[..., :-1, :-1] - total * total.swapaxes(-1, -2) / number
    trace, squares = covariance.trace(axis1=-2, axis2=-1), (covariance**2).sum((-2, -1))
    varies = trace > _ROUNDING * products[..., :-1, :-1].trace(axis1=-2, axis2=-1)
    return np.where(varies, trace**2 / np.where(varies, squares, 1.0), 0.0)
