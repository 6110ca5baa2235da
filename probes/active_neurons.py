"""How many of an MLP's neurons are at work."""

import dataclasses
from collections.abc import Iterable

import numpy as np
import torch

from stagewise.architecture import Architecture
from stagewise.attention import hooks_of
from stagewise.probe import AbstractProbe, Quantity, Reading, View


@dataclasses.dataclass(frozen=True)
class ActiveNeurons(AbstractProbe):
    """Share of each layer's MLP neurons that are active, above a threshold, at a scored position; and of silent ones.

    `silent` is the share of neurons that are active at no scored position of the batch. For an activation that is never
    zero, as GELU, a threshold tells what counts as active.

    Args:
        threshold: activations above it are active.

    Source: Li et al. (2023), The Lazy Neuron Phenomenon: On Emergence of Activation Sparsity in Transformers,
    arXiv:2210.06313.

    >>> from stagewise.probe import example_view
    >>> view = example_view([[[1, 0], [0, 1]]], activations={"blocks.0.mlp.hook_post": [[0, 2, 0], [0, 1, 3]]})
    >>> [reading.quantity for reading in ActiveNeurons().read(view)], ActiveNeurons().read(view)[0].values.item()
    (['active', 'silent'], 0.5)
    """

    quantities = {
        "active": Quantity("share of active neurons", range=(0, 1)),
        "silent": Quantity("share of neurons that are never active", range=(0, 1)),
    }
    reads_predictions = False

    threshold: float = 0.0

    def hooks(self, architecture: Architecture) -> Iterable[str]:
        """Name the hooks of the neurons' activations in all layers."""
        if architecture.config.get("attn_only"):
            raise ValueError("the model has no MLPs, whose neurons ActiveNeurons counts: leave it out")
        return hooks_of("mlp.hook_post", architecture.n_layers)

    def read(self, view: View) -> list[Reading]:
        """Return `active` and `silent` by layer."""
        scored = view.batch.scored
        active, often = [], []
        for name in self.hooks(view.architecture):
            fires = (view.activations[name] > self.threshold) & scored[:, :, None]
            active.append(fires.float().mean(-1).sum(1) / scored.sum(1))
            often.append(fires.float().sum(1).mean(0))
        layers = {"layer": range(len(active))}
        readings = [Reading("batch layer", torch.stack(active, 1), "active", layers)]
        if len({each.shape for each in often}) == 1:
            readings.append(Reading("layer", torch.stack(often), "silent", layers, _silent, means=True))
        return readings


def _silent(often: np.ndarray) -> np.ndarray:
    """Return the share of neurons that were active zero times, from how often each was a sequence: [layer neuron]."""
    return np.asarray((often == 0).mean(-1))
