"""The model's loss without each layer's MLP."""

import dataclasses
from collections.abc import Iterable
from typing import Literal

import torch
from einops import rearrange

from stagewise.architecture import Architecture
from stagewise.intervention import AblateMLP, Edit
from stagewise.probe import AbstractProbe, Reading, View
from stagewise.probes.head_ablation import HeadAblation


@dataclasses.dataclass(frozen=True)
class MLPAblation(AbstractProbe):
    """Change of the loss, and KL(clean || ablated), both nats, when what one layer's MLP writes is replaced.

    For a regression the loss is half the squared error and the divergence half the squared distance of the outputs: see
    `loss.divergence`. The output to the residual stream is replaced, behind a norm that the layer may have there. The
    rows with control = "MLP of another layer" are the control: the mean effect over the other layers' MLPs.

    Args:
        kinds: of "zero" and "mean" (over the batch, at each position).

    Source: ablations as in Michel et al. (2019), Are Sixteen Heads Really Better than One?, arXiv:1905.10650, there of
    heads; of layers' MLPs as in Wang et al. (2023), Interpretability in the Wild, arXiv:2211.00593, by the mean.

    >>> from stagewise.probe import example_view
    >>> view = example_view(probs=[[0.5, 0.5]], targets=[0], edited={(AblateMLP(0, "zero"),): [[0.25, 0.75]]})
    >>> [(r.quantity, round(r.values.item(), 4)) for r in MLPAblation(kinds=("zero",)).read(view)]
    [('loss_change', 0.6931), ('kl', 0.1438)]
    """

    quantities = HeadAblation.quantities
    reads_unscored = False

    kinds: tuple[Literal["zero", "mean"], ...] = ("zero", "mean")

    def __post_init__(self) -> None:
        if not self.kinds or len(set(self.kinds)) < len(self.kinds):
            raise ValueError(f"kinds must name 'zero', 'mean' or both, each once, got {self.kinds}")
        for kind in self.kinds:
            AblateMLP(0, kind)  # raises where it is none of the kinds

    def edits(self, architecture: Architecture) -> Iterable[Edit]:
        """List one edited pass for each layer and each kind."""
        if architecture.config.get("attn_only"):
            raise ValueError("the model has no MLPs, which MLPAblation replaces: leave it out")
        return [(AblateMLP(layer, kind),) for layer in range(architecture.n_layers) for kind in self.kinds]

    def read(self, view: View) -> list[Reading]:
        """Return `loss_change` and `kl` by layer, kind and control."""
        n_layers, readings = view.architecture.n_layers, []
        for quantity, effect in view.effects(list(self.edits(view.architecture)))._asdict().items():
            effect = rearrange(effect, "batch (layer kind) -> batch layer kind", layer=n_layers)
            values = {"MLP": effect}
            if n_layers > 1:
                values["MLP of another layer"] = (effect.sum(1, keepdim=True) - effect) / (n_layers - 1)
            labels, stacked = {"kind": self.kinds, "control": tuple(values)}, torch.stack(list(values.values()), -1)
            readings.append(Reading("batch layer kind control", stacked, quantity, labels))
        return readings
