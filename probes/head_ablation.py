"""The model's loss without each head."""

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, get_args, get_type_hints

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from stagewise.architecture import Architecture
from stagewise.intervention import AblateHead, AttributeHeads, Edit
from stagewise.loss import mean_scored
from stagewise.probe import AbstractProbe, Effects, Labels, Quantity, Reading, View
from stagewise.probes._moderated import half_widths

_FIRST = 2
"""Sequences that every head is ablated on: a deviation needs two."""

_PRECISION = 0.05
"""Part of itself to which a large effect is known as the mean of all sequences."""

_LARGE, _SMALL = 0.25, 0.01
"""Part of the largest effect, and nats, below which one is only bounded."""

_OfLayers = Mapping[int, Mapping[str, Tensor]]
"""Effects [batch head kind] by layer and quantity."""


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

    With `exact=False` every head is ablated on the first two sequences of the batch. Heads whose effect is, or may be,
    a quarter of the largest or more, and 0.01 nats, go on, on twice as many each time, until the mean over all
    sequences is known to 5 %. On the other sequences the change of the loss is its first-order estimate, corrected by
    what it misses on those that were taken (a difference estimator); the KL, which has no such estimate, is the mean
    of those taken. `n` counts sequences that were taken. The interval is that of the resampled sequences, and wider on
    either side by the error of what is estimated.

    Along a training the sequences that are taken are always the first ones, the same at every checkpoint, and how many
    is decided at each. A decision to take more moves a curve by the error of the estimate, which is within the
    interval before, and not by how the sequences differ, which the gradients show of all of them. Curves of the KL
    move by the latter too: their intervals say so.

    Args:
        heads: (layer, head) pairs; None for every head, which the other layers' heads and the closer matches need.
        kinds: of "zero", "mean" (over the batch, at each position) and "resample" (another sequence's output); and of
            "pattern" and "values", which replace one factor of the output by its mean over the batch: the value-
            preserving and the pattern-preserving ablation, what the head's looking and what its reading is worth.
        matched: also give these closer matches.
        random_heads: how many single heads to draw; of a layer with fewer other heads, all of these.
        random_direction: also move the output in a random direction, a further pass each head and kind.
        seed: of the drawn heads and directions, the same at every checkpoint.
        exact: whether each head is ablated on all sequences; if not, kinds are "zero" and "mean", without the controls
            on request.

    Raises:
        ValueError: a head that the model does not have, an unknown kind, closer matches of some heads only, a
            negative number or seed, or kinds or controls that need exact effects.

    Source: ablations as in Michel et al. (2019), Are Sixteen Heads Really Better than One?, arXiv:1905.10650;
    resampling as in Chan et al. (2022), Causal Scrubbing; the difference estimator as in Cochran (1977), Sampling
    Techniques, section 7.

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
    exact: bool = True

    def __post_init__(self) -> None:
        if not self.exact and (self.matched or self.random_heads or self.random_direction):
            raise ValueError("further controls are of heads on all sequences: leave exact=False out")
        if not self.exact and not set(self.kinds) <= {"zero", "mean"}:
            raise ValueError(f"exact=False is of 'zero' and 'mean', which gradients estimate; got {self.kinds}")
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

    def attributions(self, architecture: Architecture) -> Iterable[AttributeHeads]:
        """List the estimates that say what an effect is where it is not measured."""
        return [AttributeHeads(kind) for kind in self.kinds if not self.exact]  # type: ignore[arg-type]  # __post_init__

    def edits(self, architecture: Architecture) -> Iterable[Edit]:
        """List one edited pass for each head of the chosen heads' layers and each kind, and those in a direction."""
        for layer, heads in self._by_layer(architecture).items():
            for head, kind in itertools.product(range(architecture.n_heads), self.kinds):
                yield _edit(layer, head, kind)
            for head, kind in itertools.product(heads if self.random_direction else (), self.kinds):
                yield _edit(layer, head, kind, self.seed)

    def read(self, view: View) -> list[Reading]:
        """Return `loss_change` and `kl` by layer, head, kind and control."""
        if not self.exact:
            estimates = [view.attributed[request] for request in self.attributions(view.architecture)]
            return [Reading("batch layer head kind", torch.stack(estimates, -1), "loss_change", {"kind": self.kinds})]
        by_layer, every = self._by_layer(view.architecture), range(view.architecture.n_heads)
        of_layers = {layer: self._effects(view, layer, every) for layer in by_layer}
        directed = by_layer if self.random_direction else {}
        moved = {layer: self._effects(view, layer, heads, self.seed) for layer, heads in directed.items()}
        return [*self._readings(by_layer, of_layers, moved), *(self._closer(view, of_layers) if self.matched else ())]

    def further_readings(self, readings: Sequence[Reading], effects: Effects) -> list[Reading]:
        """Ablate every head on few sequences, and those on more whose effects are large or not known well enough."""
        if self.exact:
            return list(readings)
        (first_order,) = readings
        by_layer = self._by_layer(effects.architecture)
        estimates = first_order.values[:, list(by_layer)].flatten(1).double().cpu().numpy()
        few = _allocated(effects, list(self.edits(effects.architecture)), estimates)
        sizes = {"layer": len(by_layer), "kind": len(self.kinds)}

        def of_layers(all_layers: Float[np.ndarray, "quantity batch edit"]) -> _OfLayers:
            pattern = "quantity batch (layer head kind) -> layer quantity batch head kind"
            split = rearrange(torch.from_numpy(all_layers).float(), pattern, **sizes)
            return {
                layer: dict(zip(self.quantities, each, strict=True))
                for layer, each in zip(by_layer, split, strict=True)
            }

        taken = rearrange(torch.from_numpy(few.n), "(layer head kind) -> layer head kind", **sizes)
        of_layer = dict(zip(by_layer, taken, strict=True))
        # What is a mean of effects is no less well known than the mean of their margins.
        values = self._readings(by_layer, of_layers(few.values), {})
        margins = self._readings(by_layer, of_layers(few.margins[:, None]), {})
        return [_of_few(*each, of_layer) for each in zip(values, margins, strict=True)]

    def _readings(self, by_layer: Mapping[int, list[int]], of_layers: _OfLayers, moved: _OfLayers) -> list[Reading]:
        """Return the effects of heads with their controls."""
        readings = []
        for layer, heads in by_layer.items():
            for quantity, effect in of_layers[layer].items():
                values = {"head": effect[:, heads]}
                if (n_heads := effect.shape[1]) > 1:
                    values["random head"] = ((effect.sum(1, keepdim=True) - effect) / (n_heads - 1))[:, heads]
                elif self.heads is None and len(of_layers) > 1:
                    others = [other[quantity] for number, other in of_layers.items() if number != layer]
                    values["head of another layer"] = torch.stack(others).mean(0)
                for i, drawn in enumerate(self._drawn(layer, heads, n_heads), start=1):
                    values[f"random head {i}"] = effect[:, drawn]
                if layer in moved:
                    values["random direction"] = moved[layer][quantity]
                labels = Labels({"layer": [layer], "head": heads, "kind": self.kinds, "control": list(values)})
                stacked = torch.stack(list(values.values()), -1)[:, None]
                readings.append(Reading("batch layer head kind control", stacked, quantity, labels))
        return readings

    def _closer(self, view: View, of_layers: _OfLayers) -> Iterable[Reading]:
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


class _Few(NamedTuple):
    """Effects of edits on all sequences (nats), of which those on `n` were taken, with the half-widths of the intervals
    of their means as `margins`.
    """

    values: Float[np.ndarray, "quantity sequence edit"]
    margins: Float[np.ndarray, "quantity edit"]
    n: Int[np.ndarray, " edit"]


def _allocated(effects: Effects, edits: Sequence[Edit], estimates: Float[np.ndarray, "sequence edit"]) -> _Few:
    """Run edits on the first sequences, on twice as many those that are or may be large and are not known yet."""
    chosen, stop = np.arange(len(edits)), 0
    found = np.full((2, *estimates.shape), np.nan)
    while True:
        stop = min(max(2 * stop, _FIRST), effects.sequences)
        found[:, :stop, chosen] = torch.stack(effects([edits[i] for i in chosen.tolist()], stop)).cpu()
        few = _completed(found, estimates)
        sizes = np.abs(few.values.mean(1))
        large = sizes + few.margins > np.maximum(_LARGE * sizes.max(1, keepdims=True), _SMALL)
        chosen = np.flatnonzero((large & (few.margins > _PRECISION * sizes)).any(0))
        if not len(chosen):
            return few


def _completed(
    found: Float[np.ndarray, "quantity sequence edit"], estimates: Float[np.ndarray, "sequence edit"]
) -> _Few:
    """Complete effects that are nan on some sequences."""
    change, kl = found
    n, mean = np.isfinite(kl).sum(0), np.nanmean(kl, 0)
    # What gradients miss is of second order, as the KL is.
    rest, scale = change - estimates, mean.clip(min=0)
    margins = np.zeros((2, len(n)))
    if n.min() < len(kl):
        widths = np.stack([half_widths(rest, scale), half_widths(kl, scale, shared=True)])
        margins = widths * np.sqrt(1 - n / len(kl))
    others = np.stack([estimates + np.nanmean(rest, 0), np.broadcast_to(mean, kl.shape)])
    return _Few(np.where(np.isnan(found), others, found), margins, n)


def _of_few(values: Reading, margins: Reading, taken: Mapping[int, Tensor]) -> Reading:
    """Return a reading with its margins, and how many sequences were taken: of a control the fewest of its layer."""
    of_layer, margin = taken[int(values.labels["layer"][0])], margins.values[0]
    n = torch.full_like(margin, int(of_layer.min()), dtype=torch.long)
    n[..., 0] = of_layer[list(map(int, values.labels["head"]))]
    return dataclasses.replace(values, margin=margin, taken=n)


@functools.cache
def _edit(layer: int, head: int, kind: str, direction: int | None = None) -> Edit:
    return (AblateHead(layer, head, kind, direction),)  # type: ignore[arg-type]  # checked in __post_init__


def _of_closest(means: np.ndarray) -> np.ndarray:
    """Return the effects of each head's closest ones, [... layer head kind control]. `means` are effects and two
    traits, [... layer head (kind, entropy, norm)].
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
