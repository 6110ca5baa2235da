"""Which heads carry a behaviour: their direct effects on the logit difference, patched, and ablated."""

import dataclasses
import functools
import itertools
import warnings
from collections.abc import Iterable, Iterator, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from stagewise.architecture import Architecture
from stagewise.attention import hooks_of, residual_hooks_of
from stagewise.batch import END
from stagewise.intervention import AttributePatches, Edit, Patch, PatchHead
from stagewise.probe import AbstractProbe, Labels, Quantity, Reading, View
from stagewise.probes.behaviour_curve import answered
from stagewise.table import Head, Role

ALL = "all positions"
"""The place of what is replaced at every position."""

_ABLATIONS = ("mean", "zero")
_NEEDS = {"noising": "corrupted", "denoising": "corrupted", "neutral": "neutral"}
_EDITS = dict[str, Patch](noising="patch", denoising="patch", neutral="neutral", mean="mean", zero="zero")
_QUANTITY = dict.fromkeys(_NEEDS, "patched") | dict.fromkeys(_ABLATIONS, "ablated")

_OfHeads = Float[Tensor, "batch layer head"]


@dataclasses.dataclass(frozen=True)
class BehaviourHeads(AbstractProbe):
    """By how much (nats) each head raises the logit difference of right and wrong answers.

    All are positive where a head helps the right answer:

    - `direct`: what the head writes at the last position, through the final norm with its scale on the whole stream.
    - `patched`: noising, the prompt's difference less that with the head's output taken from the corrupted prompt;
      denoising, the corrupted prompt's difference with the head's output taken from the prompt, less its own; neutral,
      as noising, from a prompt of the same answer, whose corruption should change nothing. Each is made at all
      positions, and at every labelled one.
    - `ablated`: the prompt's difference less that with the head's output replaced by its mean, over prompts of the same
      length at each position, or by zero.
    - `effect`: noising at all positions; of prompts without corrupted ones the ablation by the mean.
    - `control`: of `direct` and `effect` the mean over the other heads of the layer: another one's expected effect.

    A model of more heads than `most` has its effects estimated, all by one gradient: `estimated_effect`, and
    `estimated` by kind and place. The `top` largest are then patched and ablated exactly, at all positions.

    Args:
        patches: of "noising", "denoising" and "neutral"; those of which the batch has the prompts are made.
        most: heads up to which every one is patched.
        top: how many heads are patched exactly beyond that.
        places: labels to patch at, beside all positions at once.

    Raises:
        ValueError: a batch without answers, or one that compares whole answers; a label that no prompt has.

    Source: Wang et al. (2022), Interpretability in the Wild, arXiv:2211.00593, sections 3 and 4; noising and denoising
    as in Heimersheim and Nanda (2024), How to use and interpret activation patching, arXiv:2404.15255; estimates as in
    Nanda (2023), Attribution Patching. Deviation: means are over prompts of this batch.

    >>> from stagewise.probe import example_view
    >>> BehaviourHeads().read(example_view([[[1.0]]]))
    Traceback (most recent call last):
    ValueError: the batch has no right and wrong answers: measure on --pairs FILE, or Batch.from_pairs
    """

    quantities = {
        "effect": Quantity("effect of the head", "nats", progress="up", role=Role.EFFECT),
        "direct": Quantity("direct effect of the head", "nats", progress="up", role=Role.DIRECT_EFFECT),
        "estimated_effect": Quantity("estimated effect of the head", "nats", progress="up", role=Role.EFFECT),
        "patched": Quantity("effect of the head, patched from another prompt", "nats"),
        "ablated": Quantity("effect of the head, ablated", "nats", role=Role.ABLATED),
        "estimated": Quantity("estimated effect of the head, patched from another prompt", "nats"),
        "control": Quantity("effect of another head of the layer", "nats"),
    }
    reads_unscored = False
    of_all_sequences = True

    places: tuple[str, ...] = ()
    patches: tuple[str, ...] = ("noising", "denoising")
    most: int = 64
    top: int = 4

    def __post_init__(self) -> None:
        if unknown := [kind for kind in self.patches if kind not in _NEEDS]:
            raise ValueError(f"patches are of {', '.join(_NEEDS)}, got {unknown[0]!r}")

    def hooks(self, architecture: Architecture) -> Iterable[str]:
        """Name the residual stream at every layer, and what heads write."""
        return (*residual_hooks_of(architecture.n_layers), *hooks_of("attn.hook_z", architecture.n_layers))

    def edits(self, architecture: Architecture) -> Iterable[Edit]:
        """List every patch and ablation; those that the prompts allow, and that matter most, are run."""
        heads = itertools.product(range(architecture.n_layers), range(architecture.n_heads))
        wanted = [(_EDITS[kind], place) for kind in (*_ABLATIONS, *self.patches) for place in self._places(kind)]
        return [_edit(*head, kind, place) for head in heads for kind, place in dict.fromkeys(wanted)]

    def attributions(self, architecture: Architecture) -> Iterable[AttributePatches]:
        """List the estimates of a large model."""
        if not self._is_large(architecture):
            return []
        wanted = [(_EDITS[kind], place) for kind in (*self.patches, "mean") for place in self._places(kind)]
        return [AttributePatches(*each) for each in dict.fromkeys(wanted)]

    def read(self, view: View) -> list[Reading]:
        """Return `direct`, `patched`, `ablated`, `effect` and `control`; of a large model the estimates too."""
        prompts = view.prompts
        if prompts.summed:
            raise ValueError("heads are patched where first tokens of answers are compared, not whole answers")
        kinds = [kind for kind in self.patches if _NEEDS[kind] in view.others]
        main, sizes = "noising" if "noising" in kinds else "mean", view.architecture
        large = self._is_large(sizes)
        chosen = list(itertools.product(range(sizes.n_layers), range(sizes.n_heads)))
        readings, controlled = list[Reading](), dict[str, _OfHeads]()
        if (direct := _direct(view)) is not None:
            controlled["direct"] = direct
        if large:
            for kind in (*kinds, "mean"):
                estimates = [self._estimate(view, kind, place) for place in self._places(kind)]
                readings.append(self._by_place("estimated", kind, torch.stack(estimates, -1)))
                if kind == main:
                    controlled["estimated_effect"] = estimates[0]
            sums = controlled["estimated_effect"].mean(0).abs().flatten()
            largest = sums.argsort(descending=True, stable=True)[: self.top].tolist()
            chosen = sorted(chosen[number] for number in largest)
        for kind in (*kinds, *_ABLATIONS):
            places = self._places(kind)[: 1 if large else None]
            values = torch.stack([_exact(view, kind, place, chosen) for place in places], -1)
            if kind == main and not large:
                controlled["effect"] = values[..., 0].view(len(values), sizes.n_layers, sizes.n_heads)
            for layer, heads in itertools.groupby(range(len(chosen)), lambda number: chosen[number][0]):
                numbers = list(heads)
                labels = Labels({"layer": [layer], "head": [chosen[number][1] for number in numbers]})
                readings.append(self._by_place(_QUANTITY[kind], kind, values[:, None, numbers], labels))
        for quantity, values in controlled.items():
            readings.append(Reading("batch layer head", values, quantity))
            if (n_heads := values.shape[2]) > 1:
                others = (values.sum(2, keepdim=True) - values) / (n_heads - 1)
                readings.append(Reading("batch layer head kind", others[..., None], "control", {"kind": [quantity]}))
        return readings

    def _is_large(self, architecture: Architecture) -> bool:
        return architecture.n_layers * architecture.n_heads > self.most

    def _places(self, kind: str) -> tuple[str, ...]:
        return ("", *self.places) if kind in _NEEDS else ("",)

    def _by_place(self, quantity: str, kind: str, values: Tensor, heads: Labels | None = None) -> Reading:
        places = [place or ALL for place in self._places(kind)][: values.shape[-1]]
        labels = {**(heads or {}), "kind": [kind], "place": places}
        return Reading("batch layer head kind place", values[:, :, :, None], quantity, labels)

    def _estimate(self, view: View, kind: str, place: str) -> _OfHeads:
        of, sign = (view.others["corrupted"], 1) if kind == "denoising" else (view, -1)
        return sign * of.attributed[AttributePatches(_EDITS[kind], place)]


def _exact(view: View, kind: str, place: str, heads: Sequence[Head]) -> Float[Tensor, "batch chosen"]:
    """Return the exact effects of heads, patched or ablated at a place."""
    of, sign = (view.others["corrupted"], 1) if kind == "denoising" else (view, -1)
    edited = [of.edited[_edit(*head, _EDITS[kind], place)].difference for head in heads]
    return sign * (torch.stack([each for each in edited if each is not None], 1) - answered(of)[:, None])


def _direct(view: View) -> _OfHeads | None:
    """Return the direct effects on the logit difference; None, with a warning, where what heads write is not known."""
    prompts, rows = view.prompts, torch.arange(len(view.batch))
    end, log_probs = prompts.places[END], view.answer_log_probs
    final = view.activations[residual_hooks_of(view.architecture.n_layers)[-1]][rows, end]
    layers = []
    try:
        for layer, name in enumerate(hooks_of("attn.hook_z", view.architecture.n_layers)):
            written = view.readout.written(layer, view.activations[name][rows, end])
            stream = final[:, None].expand(written.shape)
            # Several answers count by their shares, as the gradient of their sum does.
            sides = [
                weight[:, None] * view.readout.direct(written, stream, token[:, None].expand(written.shape[:2]))
                for answers, sign in ((prompts.right, 1.0), (prompts.wrong, -1.0))
                for token, weight in _weighted(answers, log_probs, sign)
            ]
            layers.append(torch.stack(sides).sum(0))
    except ValueError as reason:
        warnings.warn(f"no direct effects of heads: {reason}", stacklevel=2)
        return None
    return torch.stack(layers, 1)


def _weighted(
    answers: Int[Tensor, "batch answer"], log_probs: Float[Tensor, "batch token"], sign: float
) -> Iterator[tuple[Int[Tensor, " batch"], Float[Tensor, " batch"]]]:
    """Yield each answer with its share of the probability of all of them; one that a prompt lacks has none."""
    known = log_probs.gather(1, answers.clamp(min=0)).masked_fill(answers < 0, -torch.inf).softmax(1)
    for number in range(answers.shape[1]):
        yield answers[:, number].clamp(min=0), sign * known[:, number]


@functools.cache
def _edit(layer: int, head: int, kind: Patch, place: str) -> Edit:
    return (PatchHead(layer, head, kind, place),)
