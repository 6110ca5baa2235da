"""The model's loss without each head."""

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import get_args, get_type_hints

import numpy as np
import torch
from einops import rearrange
from torch import Tensor

from stagewise.architecture import Architecture
from stagewise.intervention import AblateHead, Edit
from stagewise.loss import mean_scored
from stagewise.probe import AbstractProbe, Labels, Quantity, Reading, View


@dataclasses.dataclass(frozen=True)
class HeadAblation(AbstractProbe):
    """Change of the loss, and KL(clean || ablated), both nats, when one head's output is replaced.

    For a regression the loss is half the squared error and the divergence half the squared distance of the outputs: see
    `loss.divergence`.

    The rows with control = "random head" are the matched control: the expected effect of ablating another head of
    the same layer, drawn at random. It is the exact mean over those heads, not one draw. Where layers have one head, it
    is the mean over those of the other layers, "head of another layer". Closer matches, on request, are the effects of
    one other head each: of the layer, or of any other one where it is alone, that with the nearest entropy of
    attention ("entropy-matched head"), or with the nearest norm of its output z ("norm-matched head"). Also on request,
    single heads of the same layer, drawn without repetition ("random head 1" and so on), and the head itself with its
    output not replaced but moved as far in a random direction ("random direction").

    Args:
        heads: (layer, head) pairs; None for every head, which the other layers' heads and the closer matches need.
        kinds: of "zero", "mean" (over the batch, at each position) and "resample" (another sequence's output); and of
            "pattern" and "values", which replace one factor of the output by its mean over the batch: the value-
            preserving and the pattern-preserving ablation, what the head's looking and what its reading is worth.
        matched: also give these closer matches.
        random_heads: how many single heads to draw; of a layer with fewer other heads, all of these.
        random_direction: also move the output in a random direction, a further pass each head and kind.
        seed: of the drawn heads and directions, the same at every checkpoint.

    Raises:
        ValueError: a head that the model does not have, an unknown kind, closer matches of some heads only, or a
            negative number or seed.

    Source: ablations as in Michel et al. (2019), Are Sixteen Heads Really Better than One?, arXiv:1905.10650;
    resampling as in Chan et al. (2022), Causal Scrubbing.

    >>> from stagewise.probe import example_view
    >>> ablated = {(AblateHead(0, 0, "zero"),): [[0.25, 0.75]]}
    >>> view = example_view(probs=[[0.5, 0.5]], targets=[0], edited=ablated)
    >>> [(r.quantity, round(r.values.item(), 4)) for r in HeadAblation(kinds=("zero",)).read(view)]
    [('loss_change', 0.6931), ('kl', 0.1438)]
    """

    quantities = {
        "loss_change": Quantity("change of the loss", "nats"),
        "kl": Quantity("KL(clean ‖ ablated)", "nats", (0, None)),
    }

    heads: tuple[tuple[int, int], ...] | None = None
    kinds: tuple[str, ...] = ("zero", "mean", "resample")
    matched: bool = False
    random_heads: int = 0
    random_direction: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.random_heads < 0 or self.seed < 0:
            raise ValueError(f"random_heads and seed are not negative, got {self.random_heads} and {self.seed}")
        if self.matched and self.heads is not None:
            raise ValueError("a closer match is one of all heads: leave `heads` out, or `matched`")
        if not self.kinds or len(set(self.kinds)) < len(self.kinds):
            kinds = ", ".join(map(repr, get_args(get_type_hints(AblateHead)["kind"])))
            raise ValueError(f"kinds must name at least one of {kinds}, each once, got {self.kinds}")
        for layer, head in self.heads or ((0, 0),):
            for kind in self.kinds:
                AblateHead(layer, head, kind)  # type: ignore[arg-type]  # raises where it is none of the kinds

    def hooks(self, architecture: Architecture) -> Iterable[str]:
        """Name the patterns and z's that closer matches are chosen by."""
        layers = range(architecture.n_layers) if self.matched else ()
        return [f"blocks.{layer}.attn.hook_{name}" for layer in layers for name in ("pattern", "z")]

    def edits(self, architecture: Architecture) -> Iterable[Edit]:
        """List one edited pass for each head of the chosen heads' layers and each kind, and those in a direction."""
        for layer, heads in self._by_layer(architecture).items():
            for head, kind in itertools.product(range(architecture.n_heads), self.kinds):
                yield _edit(layer, head, kind)
            for head, kind in itertools.product(heads if self.random_direction else (), self.kinds):
                yield _edit(layer, head, kind, self.seed)

    def read(self, view: View) -> list[Reading]:
        """Return `loss_change` and `kl` by layer, head, kind and control."""
        readings = []
        by_layer, every = self._by_layer(view.architecture), range(view.architecture.n_heads)
        of_layers = {layer: self._effects(view, layer, every) for layer in by_layer}
        for layer, heads in by_layer.items():
            directed = self._effects(view, layer, heads, self.seed) if self.random_direction else {}
            for quantity, effect in of_layers[layer].items():
                values = {"head": effect[:, heads]}
                if (n_heads := effect.shape[1]) > 1:
                    values["random head"] = ((effect.sum(1, keepdim=True) - effect) / (n_heads - 1))[:, heads]
                elif self.heads is None and len(of_layers) > 1:
                    others = [other[quantity] for number, other in of_layers.items() if number != layer]
                    values["head of another layer"] = torch.stack(others).mean(0)
                for i, drawn in enumerate(self._drawn(layer, heads, n_heads), start=1):
                    values[f"random head {i}"] = effect[:, drawn]
                if directed:
                    values["random direction"] = directed[quantity]
                labels = Labels({"layer": [layer], "head": heads, "kind": self.kinds, "control": list(values)})
                stacked = torch.stack(list(values.values()), -1)[:, None]
                readings.append(Reading("batch layer head kind control", stacked, quantity, labels))
        return [*readings, *(self._closer(view, of_layers) if self.matched else ())]

    def _closer(self, view: View, of_layers: Mapping[int, Mapping[str, Tensor]]) -> Iterable[Reading]:
        """Return the effects of the heads that are closest in entropy, and in norm; chosen anew in every resample."""
        names = [f"blocks.{layer}.attn.hook_" for layer in of_layers]
        patterns, outputs = ([view.activations[name + which] for name in names] for which in ("pattern", "z"))
        entropy = [mean_scored(-torch.xlogy(each, each).sum(-1), view.batch.scored) for each in patterns]
        norm = [mean_scored(each.norm(dim=-1).transpose(1, 2), view.batch.scored) for each in outputs]
        traits = torch.stack([torch.stack(entropy, 1), torch.stack(norm, 1)], -1)
        if traits[0, ..., 0].numel() < 2:
            return
        labels = {"kind": self.kinds, "control": ["entropy-matched head", "norm-matched head"]}
        for quantity in self.quantities:
            effects = torch.stack([of_layer[quantity] for of_layer in of_layers.values()], 1)
            values = torch.cat([effects, traits], -1)
            yield Reading("batch layer head kind control", values, quantity, labels, statistic=_of_closest)

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

    def _drawn(self, layer: int, heads: Sequence[int], n_heads: int) -> Iterable[list[int]]:
        """Yield, draw by draw, another head of the layer for each head."""
        orders = []
        for head in heads:
            others = [other for other in range(n_heads) if other != head]
            orders.append(np.random.default_rng((self.seed, layer, head)).permutation(others).tolist())
        for i in range(min(self.random_heads, n_heads - 1)):
            yield [order[i] for order in orders]

    def _effects(self, view: View, layer: int, heads: Sequence[int], direction: int | None = None) -> dict[str, Tensor]:
        edits = [_edit(layer, head, kind, direction) for head, kind in itertools.product(heads, self.kinds)]
        pattern, effects = "batch (head kind) -> batch head kind", view.effects(edits)._asdict()
        return {quantity: rearrange(effect, pattern, kind=len(self.kinds)) for quantity, effect in effects.items()}


@functools.cache
def _edit(layer: int, head: int, kind: str, direction: int | None = None) -> Edit:
    return (AblateHead(layer, head, kind, direction),)  # type: ignore[arg-type]  # checked in __post_init__


def _of_closest(means: np.ndarray) -> np.ndarray:
    """Return the effects of each head's closest ones, [... layer head kind control].

    `means` are effects and two traits, [... layer head (kind, entropy, norm)].
    """
    *outer, n_layers, n_heads, size = means.shape
    flat = means.reshape(*outer, n_layers * n_heads, size)
    layer = np.repeat(np.arange(n_layers), n_heads)
    barred = (layer[:, None] != layer) if n_heads > 1 else np.zeros((n_layers, n_layers), bool)
    barred = barred | np.eye(n_layers * n_heads, dtype=bool)
    controls = []
    for trait in (-2, -1):
        distance = np.abs(flat[..., :, None, trait] - flat[..., None, :, trait])
        closest = np.where(barred, np.inf, distance).argmin(-1)
        controls.append(np.take_along_axis(flat[..., : size - 2], closest[..., None], -2))
    return np.stack(controls, -1).reshape(*outer, n_layers, n_heads, size - 2, 2)
