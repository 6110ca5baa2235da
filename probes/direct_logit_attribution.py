"""Each head's own contribution to the logit of the right token."""

import dataclasses
from collections.abc import Iterable

import torch

from stagewise.architecture import Architecture
from stagewise.attention import hooks_of, residual_hooks_of
from stagewise.loss import mean_scored
from stagewise.probe import AbstractProbe, Quantity, Reading, View


@dataclasses.dataclass(frozen=True)
class DirectLogitAttribution(AbstractProbe):
    """Contributions of heads, the rest of each layer and the embedding to the target's logit over the mean of all
    tokens.

    The final norm is taken with its scale on the whole residual stream, so that the parts add up: heads, `rest` (a
    layer's MLP and biases) and `embedding`, with the biases of norm and unembedding, which no part has, are the logit
    of the target less the mean logit; before a soft cap, where the model has one. A head's effect through later layers
    is no part of it: see `HeadAttribution`.

    Raises:
        ValueError: a regression, whose targets are no tokens; or a model that multiplies or normalises what attention
            writes in a way that is not known here, as Granite and OLMo 2 do.

    Source: Elhage et al. (2021), A Mathematical Framework for Transformer Circuits,
    transformer-circuits.pub/2021/framework.

    >>> from types import SimpleNamespace
    >>> from stagewise.probe import example_view
    >>> streams = {"blocks.0.hook_resid_pre": [[1.0, 0.0]], "blocks.0.hook_resid_post": [[4.0, 2.0]]}
    >>> view = example_view([[[1]]], activations={**streams, "blocks.0.attn.hook_z": [[[3.0, 1.0]]]})
    >>> first = lambda part, residual, targets: part[..., 0]  # the unembedding reads the first dimension
    >>> readout = SimpleNamespace(logits=min, direct=first, written=lambda layer, z: z)  # logits unused
    >>> view = dataclasses.replace(view, find_readout=lambda: readout)
    >>> [(reading.quantity, reading.values.item()) for reading in DirectLogitAttribution().read(view)]
    [('head', 3.0), ('rest', 0.0), ('embedding', 1.0)]
    """

    quantities = {
        "head": Quantity("direct effect of the head on the target's logit"),
        "rest": Quantity("direct effect of the layer's MLP and biases on the target's logit"),
        "embedding": Quantity("direct effect of the embedding on the target's logit"),
    }
    reads_unscored = False

    def hooks(self, architecture: Architecture) -> Iterable[str]:
        """Name the residual stream at every layer, and what heads write."""
        return (*residual_hooks_of(architecture.n_layers), *hooks_of("attn.hook_z", architecture.n_layers))

    def read(self, view: View) -> list[Reading]:
        """Return `head` by layer and head, `rest` by layer, and `embedding`."""
        batch = view.batch
        if batch.is_regression:
            raise ValueError("direct logit attribution is of the target's logit, and the targets are vectors")
        streams = [view.activations[name] for name in residual_hooks_of(view.architecture.n_layers)]
        final = streams[-1]
        heads, rest = [], []
        for layer, name in enumerate(hooks_of("attn.hook_z", view.architecture.n_layers)):
            written = view.readout.written(layer, view.activations[name])
            expanded = final[:, :, None].expand(written.shape), batch.targets[:, :, None].expand(written.shape[:3])
            of_heads = view.readout.direct(written, *expanded)
            whole = view.readout.direct(streams[layer + 1] - streams[layer], final, batch.targets)
            heads.append(of_heads.movedim(-1, 1))
            rest.append(whole - of_heads.sum(-1))
        embedding = view.readout.direct(streams[0], final, batch.targets)
        return [
            Reading("batch layer head", mean_scored(torch.stack(heads, 1), batch.scored), "head"),
            Reading("batch layer", mean_scored(torch.stack(rest, 1), batch.scored), "rest"),
            Reading("batch", mean_scored(embedding, batch.scored), "embedding"),
        ]
