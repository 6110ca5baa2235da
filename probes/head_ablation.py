"""The model's loss without each head."""

import dataclasses
import functools
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, get_args, get_type_hints

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor

from stagewise.architecture import Architecture
from stagewise.intervention import AblateHead, AttributeHeads, Edit
from stagewise.loss import mean_scored
from stagewise.probe import AbstractProbe, Effects, Labels, Quantity, Reading, View, pattern_hooks
from stagewise.probes._moderated import half_widths
from stagewise.table import check_head

_FIRST = 2
"""Sequences that every head is ablated on: a deviation needs two."""

_PRECISION = 0.05
"""Part of itself to which a large effect is known as the mean of all sequences."""

_LARGE, _SMALL = 0.25, 0.01
"""Part of the largest effect, and nats, below which one is only bounded."""

_RATIO = 2**0.5
"""Factor from step to step of the checkpoints at which every head is ablated; the first and the last are among them."""

_NEEDED, _MOVED, _LOSS = 0.03, (0.02, 0.1), (0.01, 0.03)
"""Nats of an effect from which on a head is ablated up to the next of these; by how much estimates, nats, and attention
differ from those there; and the loss, nats and part of itself, of all heads. Chosen for effects of .05 nats."""

_OfLayers = Mapping[int, Mapping[str, Tensor]]
"""Effects [batch head kind] by layer and quantity."""


@dataclasses.dataclass(frozen=True)
class HeadAblation(AbstractProbe):
    """Change of the loss, and KL(clean || ablated), both nats, when one head's output is replaced.

    For a regression the loss is half the squared error and the divergence half the squared distance of the outputs: see
    `loss.divergence`.

    The rows with control = "random head" are the matched control: the expected effect of ablating another head of
    the same layer, drawn at random. It is the exact mean over those heads, not one draw. Where layers have one head, it
    is the mean over those of the other layers, "head of another layer".

    With `exact=False` every head is ablated on the first two sequences of the batch. Heads whose effect is, or may be,
    a quarter of the largest or more, and 0.01 nats, go on, on twice as many each time, until the mean over all
    sequences is known to 5 %. On the other sequences the change of the loss is its first-order estimate, corrected by
    what it misses on those that were taken (a difference estimator); the KL, which has no such estimate, is the mean
    of those taken. `n` counts sequences that were taken. The interval is that of the resampled sequences, and wider on
    either side by the error of what is estimated.

    Along a training the sequences that are taken are always the first ones, and how many is decided at each checkpoint.
    To take more moves a curve by the error of the estimate; curves of the KL move by how sequences differ, too. Every
    head is ablated at log-spaced checkpoints, the first and the last. At the others those heads are that cost 0.03 nats
    at one of the two around, or whose estimate or attention differs from there by 0.02 nats or 0.1; and all where the
    loss does by 0.01 nats and 3 %. A head that is not ablated has no row, nor have controls of its layer.

    Args:
        heads: (layer, head) pairs; None for every head, which the other layers' heads need.
        kinds: of "zero", "mean" (over the batch, at each position) and "resample" (another sequence's output); and of
            "pattern" and "values", which replace one factor of the output by its mean over the batch: the value-
            preserving and the pattern-preserving ablation, what the head's looking and what its reading is worth.
        exact: whether each head is ablated on all sequences; if not, kinds are "zero" and "mean".

    Raises:
        ValueError: a head that the model does not have, an unknown kind, or kinds that need exact effects.

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
    reads_unscored = False

    heads: tuple[tuple[int, int], ...] | None = None
    kinds: tuple[str, ...] = ("zero", "mean", "resample")
    exact: bool = True

    def __post_init__(self) -> None:
        if not self.exact and not set(self.kinds) <= {"zero", "mean"}:
            raise ValueError(f"exact=False is of 'zero' and 'mean', which gradients estimate; got {self.kinds}")
        if not self.kinds or len(set(self.kinds)) < len(self.kinds):
            kinds = ", ".join(map(repr, get_args(get_type_hints(AblateHead)["kind"])))
            raise ValueError(f"kinds must name at least one of {kinds}, each once, got {self.kinds}")
        for layer, head in self.heads or ((0, 0),):
            for kind in self.kinds:
                AblateHead(layer, head, kind)  # type: ignore[arg-type]  # raises where it is none of the kinds

    def whole(self, steps: Sequence[int]) -> Sequence[int]:
        """Choose log-spaced checkpoints, the first and the last, or all."""
        if self.exact:
            return steps
        chosen = [*steps[:1]]
        for step in steps[1:]:
            if step >= _RATIO * chosen[-1] or step == steps[-1]:
                chosen.append(step)
        return chosen

    def hooks(self, architecture: Architecture) -> Iterable[str]:
        """Name the patterns, which say whether a head's attention has moved."""
        return () if self.exact else pattern_hooks(architecture)

    def attributions(self, architecture: Architecture) -> Iterable[AttributeHeads]:
        """List the estimates that say what an effect is where it is not measured."""
        return [AttributeHeads(kind) for kind in self.kinds if not self.exact]  # type: ignore[arg-type]  # __post_init__

    def edits(self, architecture: Architecture) -> Iterable[Edit]:
        """List one edited pass for each head of the chosen heads' layers and each kind."""
        layers, heads = self._by_layer(architecture), range(architecture.n_heads)
        return [_edit(*each) for each in itertools.product(layers, heads, self.kinds)]

    def read(self, view: View) -> list[Reading]:
        """Return `loss_change` and `kl` by layer, head, kind and control."""
        if not self.exact:
            estimates = [view.attributed[request] for request in self.attributions(view.architecture)]
            masses = [mean_scored(mass, view.batch.scored) for mass in view.masses.values()]
            attention = torch.stack(masses, -1) if masses else view.offsets
            return [
                Reading("batch layer head kind", torch.stack(estimates, -1), "loss_change", {"kind": self.kinds}),
                Reading("batch layer head key", attention, "attention", {"key": range(attention.shape[-1])}),
                Reading("batch", view.loss, "loss"),
            ]
        by_layer = self._by_layer(view.architecture)
        effects = view.effects(list(self.edits(view.architecture)))
        return self._readings(by_layer, self._of_layers(by_layer, torch.stack(effects)))

    def further_readings(self, readings: Sequence[Reading], effects: Effects) -> list[Reading]:
        """Ablate heads on few sequences, and those on more whose effects are large or not known well enough."""
        if self.exact:
            return list(readings)
        layers = list(by_layer := self._by_layer(effects.architecture))
        first_order, attention, loss = (each.values.double().cpu().numpy() for each in readings)
        estimates = first_order[:, layers].reshape(len(first_order), -1)
        profile = np.repeat(attention[:, layers].mean(0).reshape(-1, attention.shape[-1]), len(self.kinds), 0)
        state = {"loss": float(loss.mean()), "moving": np.column_stack([estimates.mean(0), profile]).round(6).tolist()}
        moved = _moved(state, effects.around)
        few = _allocated(effects, list(self.edits(effects.architecture)), estimates, moved)
        costs = np.abs(few.values.mean(1)).max(0).round(6).tolist()
        effects.note = {**state, "effects": [each if of else None for each, of in zip(costs, moved, strict=True)]}
        sizes = {"layer": len(by_layer), "kind": len(self.kinds)}
        taken = rearrange(torch.from_numpy(few.n), "(layer head kind) -> layer head kind", **sizes)
        of_layer = dict(zip(by_layer, taken, strict=True))
        # What is a mean of effects is no less well known than the mean of their margins.
        values, margins = (
            self._readings(by_layer, self._of_layers(by_layer, torch.from_numpy(each).float()))
            for each in (few.values, few.margins[:, None])
        )
        return [_of_few(*each, of_layer) for each in zip(values, margins, strict=True)]

    def _of_layers(self, layers: Collection[int], effects: Float[Tensor, "quantity batch edit"]) -> _OfLayers:
        pattern = "quantity batch (layer head kind) -> layer quantity batch head kind"
        split = rearrange(effects, pattern, layer=len(layers), kind=len(self.kinds))
        return {layer: dict(zip(self.quantities, each, strict=True)) for layer, each in zip(layers, split, strict=True)}

    def _readings(self, by_layer: Mapping[int, list[int]], of_layers: _OfLayers) -> list[Reading]:
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
                labels = Labels({"layer": [layer], "head": heads, "kind": self.kinds, "control": list(values)})
                stacked = torch.stack(list(values.values()), -1)[:, None]
                readings.append(Reading("batch layer head kind control", stacked, quantity, labels))
        return readings

    def _by_layer(self, architecture: Architecture) -> dict[int, list[int]]:
        sizes = architecture.n_layers, architecture.n_heads
        by_layer: dict[int, list[int]] = {}
        for layer, head in dict.fromkeys(self.heads or itertools.product(*map(range, sizes))):
            check_head(layer, head, *sizes)
            by_layer.setdefault(layer, []).append(head)
        return by_layer


class _Few(NamedTuple):
    """Effects of edits on all sequences (nats), of which those on `n` were taken, with the half-widths of the intervals
    of their means as `margins`.
    """

    values: Float[np.ndarray, "quantity sequence edit"]
    margins: Float[np.ndarray, "quantity edit"]
    n: Int[np.ndarray, " edit"]


def _moved(state: Mapping[str, Any], around: Sequence[Mapping[str, Any]]) -> Bool[np.ndarray, " edit"]:
    """Return which edits may have another effect than at both checkpoints around; all where these are not known."""
    here = np.array(state["moving"])
    moved = np.full(len(here), len(around) < 2)
    for other in around:
        least, part = _LOSS
        moved |= abs(state["loss"] - other["loss"]) > least + part * min(state["loss"], other["loss"])
        moved |= ~(np.array(other["effects"], dtype=float) < _NEEDED)
        differences = np.abs(here - other["moving"])
        moved |= (differences[:, 0] > _MOVED[0]) | (differences[:, 1:] > _MOVED[1]).any(1)
    return moved


def _allocated(
    effects: Effects, edits: Sequence[Edit], estimates: Float[np.ndarray, "sequence edit"], moved: np.ndarray
) -> _Few:
    """Run edits that moved on the first sequences, on twice as many those that may be large and are not known yet."""
    chosen, stop, estimates = np.flatnonzero(moved), 0, np.where(moved, estimates, 0.0)
    found = np.where(moved, np.full((2, *estimates.shape), np.nan), 0.0)
    while True:
        stop = min(max(2 * stop, _FIRST), effects.sequences)
        if len(chosen):
            found[:, :stop, chosen] = torch.stack(effects([edits[i] for i in chosen.tolist()], stop)).cpu()
        few = _completed(found, estimates)
        sizes = np.abs(few.values.mean(1))
        large = sizes + few.margins > np.maximum(_LARGE * sizes.max(1, keepdims=True), _SMALL)
        chosen = np.flatnonzero((large & (few.margins > _PRECISION * sizes)).any(0))
        if not len(chosen):
            return few._replace(n=few.n * moved)


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
def _edit(layer: int, head: int, kind: str) -> Edit:
    return (AblateHead(layer, head, kind),)  # type: ignore[arg-type]  # checked in __post_init__
