"""What the model loses without each head."""

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, get_args, get_type_hints

import torch
from einops import rearrange
from torch import Tensor

from stagewise.architecture import Architecture
from stagewise.intervention import AblateHead, Edit
from stagewise.loss import mean_scored, prediction_loss
from stagewise.probe import AbstractProbe, Quantity, Reading, View


@dataclasses.dataclass(frozen=True)
class HeadAblation(AbstractProbe):
    """Change of the loss, and KL(clean || ablated), both nats, when one head's output is replaced.

    Of a regression the loss is half the squared error and the divergence half the squared distance of the outputs: see
    `loss.divergence`.

    The rows with control = "random head" are the matched control: the expected effect of ablating another head of
    the same layer, drawn at random. It is the exact mean over those heads, not one draw. A layer of one head has
    none, and no such rows.

    Args:
        heads: (layer, head) pairs; None for every head.
        kinds: of "zero", "mean" (over the batch, at each position) and "resample" (another sequence's output); and of
            "pattern" and "values", which replace one factor of the output by its mean over the batch: the value-
            preserving and the pattern-preserving ablation, what the head's looking and what its reading is worth.

    Raises:
        ValueError: a head that the model does not have, or an unknown kind.

    Source: ablations as in Michel et al. (2019), Are Sixteen Heads Really Better than One?, arXiv:1905.10650;
    resampling as in Chan et al. (2022), Causal Scrubbing.

    >>> from stagewise.probe import example_view
    >>> ablated = {(AblateHead(0, 0, "zero"),): [[0.25, 0.75]]}
    >>> view = example_view(probs=[[0.5, 0.5]], targets=[0], edited=ablated)
    >>> [(r.quantity, round(r.values.item(), 4)) for r in HeadAblation(kinds=("zero",)).read(view)]
    [('loss_change', 0.6931), ('kl', 0.1438)]
    """

    quantities: ClassVar[Mapping[str, Quantity]] = {
        "loss_change": Quantity("change of the loss", "nats"),
        "kl": Quantity("KL(clean ‖ ablated)", "nats", (0, None)),
    }

    heads: tuple[tuple[int, int], ...] | None = None
    kinds: tuple[str, ...] = ("zero", "mean", "resample")

    def __post_init__(self) -> None:
        if not self.kinds or len(set(self.kinds)) < len(self.kinds):
            kinds = ", ".join(map(repr, get_args(get_type_hints(AblateHead)["kind"])))
            raise ValueError(f"kinds must name at least one of {kinds}, each once, got {self.kinds}")
        for layer, head in self.heads or ((0, 0),):
            for kind in self.kinds:
                AblateHead(layer, head, kind)  # type: ignore[arg-type]  # raises where it is none of the kinds

    def edits(self, architecture: Architecture) -> Iterable[Edit]:
        """List one edited pass for each head of the chosen heads' layers, and each kind."""
        for layer in self._by_layer(architecture):
            for head in range(architecture.n_heads):
                for kind in self.kinds:
                    yield _edit(layer, head, kind)

    def read(self, view: View) -> list[Reading]:
        """Return `loss_change` and `kl` by layer, head, kind and control."""
        readings = []
        for layer, heads in self._by_layer(view.architecture).items():
            for quantity, effect in self._effects(view, layer).items():
                values, controls = [effect[:, heads]], ["head"]
                if (n_heads := effect.shape[1]) > 1:
                    values.append(((effect.sum(1, keepdim=True) - effect) / (n_heads - 1))[:, heads])
                    controls.append("random head")
                labels: dict[str, Sequence[str | int]] = {
                    "layer": [layer],
                    "head": heads,
                    "kind": self.kinds,
                    "control": controls,
                }
                stacked = torch.stack(values, -1)[:, None]
                readings.append(Reading("batch layer head kind control", stacked, quantity, labels))
        return readings

    def _by_layer(self, architecture: Architecture) -> dict[int, list[int]]:
        everything = list(itertools.product(range(architecture.n_layers), range(architecture.n_heads)))
        by_layer: dict[int, list[int]] = {}
        for layer, head in dict.fromkeys(self.heads or everything):
            if (layer, head) not in everything:
                raise ValueError(
                    f"there is no head L{layer}H{head}: the model has {architecture.n_layers} layers of "
                    f"{architecture.n_heads} heads, counted from 0"
                )
            by_layer.setdefault(layer, []).append(head)
        return by_layer

    def _effects(self, view: View, layer: int) -> dict[str, Tensor]:
        batch = view.batch
        loss = mean_scored(prediction_loss(view.log_probs, batch.targets), batch.scored)
        changes, divergences = [], []
        for head in range(view.architecture.n_heads):
            for kind in self.kinds:
                ablated = view.edited[_edit(layer, head, kind)]
                changes.append(ablated.loss - loss)
                divergences.append(ablated.kl)
        effects = {"loss_change": torch.stack(changes, 1), "kl": torch.stack(divergences, 1)}
        pattern, n_kinds = "batch (head kind) -> batch head kind", len(self.kinds)
        return {quantity: rearrange(effect, pattern, kind=n_kinds) for quantity, effect in effects.items()}


def _edit(layer: int, head: int, kind: str) -> Edit:
    return (AblateHead(layer, head, kind),)  # type: ignore[arg-type]  # checked in __post_init__
