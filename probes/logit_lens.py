"""Predictions of the residual stream in front of each layer."""

import dataclasses
from collections.abc import Iterable

import torch

from stagewise.architecture import Architecture
from stagewise.attention import residual_hooks_of
from stagewise.loss import ScoredPredictions
from stagewise.probe import AbstractProbe, Quantity, Reading, View


@dataclasses.dataclass(frozen=True)
class LogitLens(AbstractProbe):
    """Loss and KL(model || lens), both nats, of the residual stream put through the final norm and the unembedding.

    Layer l is the stream in front of layer l; l = n_layers is what the last one leaves, where the lens is the model: KL
    is zero there. For a regression, half the squared error and half the squared distance: see `loss.divergence`. A
    final norm and unembedding that do not give the model's own predictions behind the last layer are refused.

    Source: nostalgebraist (2020), interpreting GPT: the logit lens, lesswrong.com.

    >>> from types import SimpleNamespace
    >>> from stagewise.probe import example_view
    >>> streams = {"blocks.0.hook_resid_pre": [[0.0, 0.0]], "blocks.0.hook_resid_post": [[0.0, 1.0986]]}
    >>> view = example_view(probs=[[0.25, 0.75]], targets=[1], activations=streams)
    >>> readout = SimpleNamespace(logits=lambda residual: residual, direct=min, written=min)  # both unused
    >>> loss, kl = LogitLens().read(dataclasses.replace(view, find_readout=lambda: readout))
    >>> loss.values  # log 2 in front of the layer, log 4/3 behind it
    tensor([[0.6931, 0.2877]])
    """

    quantities = {
        "loss": Quantity("loss of the logit lens", "nats"),
        "kl": Quantity("KL(model ‖ logit lens)", "nats", (0, None)),
    }
    reads_unscored = False

    def hooks(self, architecture: Architecture) -> Iterable[str]:
        """Name the residual stream at every layer."""
        return residual_hooks_of(architecture.n_layers)

    def read(self, view: View) -> list[Reading]:
        """Return `loss` and `kl` by layer."""
        batch, names = view.batch, residual_hooks_of(view.architecture.n_layers)
        clean = ScoredPredictions.of(view.scored_log_probs, batch.targets, batch.scored)
        lenses = [clean.compare([view.readout.logits(view.activations[name][batch.scored])]) for name in names]
        loss, kl = (torch.stack(each, 1) for each in zip(*lenses, strict=True))
        labels = {"layer": range(len(names))}
        return [Reading("batch layer", loss, "loss", labels), Reading("batch layer", kl, "kl", labels)]
