"""Which head reads which: what each edge between heads is worth to the loss, or to a behaviour."""

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np
import torch

from stagewise.architecture import Architecture
from stagewise.intervention import AttributeEdges, Attribution
from stagewise.probe import AbstractProbe, Labels, Quantity, Reading, View
from stagewise.probes.head_attribution import spearman
from stagewise.table import head_label


@dataclasses.dataclass(frozen=True)
class EdgeAttribution(AbstractProbe):
    """Change of the loss (nats) when a head reads, by its queries, keys or values, the mean of an earlier head.

    On prompts with corrupted ones it reads the head's output on these, and `estimated_effect` and `exact_effect` are by
    how much the edge raises the logit difference of right and wrong answers: EAP-IG, and path patching.

    A row an edge: `layer` and `head` of the one that reads, `source` the one that is read, `composition` by which of Q,
    K and V. `estimated_change` takes one backward pass for all edges (`steps` for integrated gradients), `exact_change`
    a pass an edge: only this input of this head is changed, and all that follows computed anew, as path patching does.
    `rank_correlation` is Spearman's of the sizes of both, over all edges.

    Args:
        steps: gradients that are averaged; that of the clean pass alone, 1, misleads once a model is sure of itself.
        exact: whether to patch each edge too.

    Raises:
        ValueError: less than one step, a model of one layer, or one whose heads cannot be given inputs of their own.

    Source: Syed et al. (2023), Attribution Patching Outperforms Automated Circuit Discovery, arXiv:2310.10348; Hanna
    et al. (2024), Have Faith in Faithfulness, arXiv:2403.17806, for several steps; Goldowsky-Dill et al. (2023),
    Localizing Model Behavior with Path Patching, arXiv:2304.05969. Deviation: without another prompt the mean
    over the batch takes its place.

    >>> from stagewise.probe import example_view
    >>> view = example_view([[[1.0]]])
    >>> view = dataclasses.replace(view, architecture=Architecture({**view.architecture.config, "n_layers": 2}))
    >>> numbers = torch.zeros(1, 2, 1, 2, 1, 3)
    >>> EdgeAttribution(exact=False).read(dataclasses.replace(view, attributed={AttributeEdges(8): numbers}))
    [Reading(estimated_change: batch=1 layer=1 head=1 source=1 composition=3)]
    """

    quantities = {
        "estimated_change": Quantity("estimated change of the loss without the edge", "nats"),
        "exact_change": Quantity("change of the loss without the edge", "nats"),
        "estimated_effect": Quantity("estimated effect of the edge on the logit difference", "nats"),
        "exact_effect": Quantity("effect of the edge on the logit difference", "nats"),
        "rank_correlation": Quantity("rank correlation of estimated and exact size", "", (-1, 1)),
    }
    reads_unscored = False

    steps: int = 8
    exact: bool = True

    def __post_init__(self) -> None:
        AttributeEdges(self.steps)  # raises where it is none

    def attributions(self, architecture: Architecture) -> Iterable[Attribution]:
        """List the estimate, and the exact patching."""
        if architecture.n_layers < 2:
            raise ValueError("edges between heads are of a model of two layers or more: leave EdgeAttribution out")
        return self._requests.values()

    @property
    def _requests(self) -> Mapping[str, Attribution]:
        exact = {"exact": AttributeEdges(exact=True)} if self.exact else {}
        return {"estimated": AttributeEdges(self.steps), **exact}

    def read(self, view: View) -> list[Reading]:
        """Return changes, or effects, of each edge, estimated and exact, and `rank_correlation`."""
        readings, flat = [], []
        name, sign = ("effect", -1) if "corrupted" in view.others else ("change", 1)
        for way, request in self._requests.items():
            by_layer = []
            for layer, edges in enumerate(view.attributed[request].unbind(1)):
                if layer == 0:
                    continue
                values = sign * edges[:, None, :, :layer].flatten(3, 4)
                sources = [head_label(below, head) for below in range(layer) for head in range(edges.shape[3])]
                labels = Labels({"layer": [layer], "source": sources, "composition": ["Q", "K", "V"]})
                readings.append(Reading("batch layer head source composition", values, f"{way}_{name}", labels))
                by_layer.append(values.flatten(1))
            flat.append(torch.cat(by_layer, 1))
        if self.exact:
            both = torch.stack(flat, 1)
            readings.append(Reading("batch", both, "rank_correlation", statistic=lambda pairs: spearman(np.abs(pairs))))
        return readings
