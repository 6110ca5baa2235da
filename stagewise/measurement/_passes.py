"""The passes of one checkpoint: the batch in slices that fit into a budget of memory, each edit reduced at once."""

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.attention import residual_hooks_of, z_hook
from stagewise.batch import Prompts
from stagewise.intervention import (
    AblateHead,
    Ablation,
    AttributeEdges,
    AttributePatches,
    Attribution,
    Edit,
    Patch,
    PatchHead,
    first_layer,
)
from stagewise.loss import ScoredPredictions, mean_of_rows, prediction_loss
from stagewise.models import gradients
from stagewise.models.lean import LeanPass
from stagewise.probe import AbstractProbe, EditedPass, View
from stagewise.task import Batch

_ENOUGH = 5 * 2**25
"""Bytes beyond which a larger slice makes nothing faster."""

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")

_BLOCK = 2**24
"""Bytes of logits that are unembedded at once."""

_ROWS = 512
"""Positions of all sequences below which a product takes longer than its share of a larger one."""

_FEWEST = 256
"""Positions of a slice at least, where there is memory: products of fewer read the weights more often than they use
them."""

_KEPT = 24
"""Vectors of the residual stream's width that a layer with a usual MLP keeps of each position for its gradients."""


def default_memory(device: str | torch.device = "cpu", enough: int = 0, workers: int = 1) -> int:
    """Return the bytes that a worker takes: its part of what is enough, and at most a quarter of what is free."""
    cuda = torch.device(device).type == "cuda"
    free = torch.cuda.mem_get_info(device)[0] if cuda else _free()
    return min(max(_ENOUGH // workers, enough), free // 4 // workers)


def _free() -> int:
    """Return the bytes that new work may take: on Linux those of files in memory too, which give way."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1])
    return 4 * _ENOUGH


def enough(batch: Batch, architecture: Architecture, backward: bool = False, predictions: bool = True) -> int:
    """Return the bytes of a slice in which products are as fast as in a larger one."""
    sequences = math.ceil(_FEWEST / batch.tokens.shape[1])
    return sequences * _bytes(batch, architecture, backward, predictions)


def slices_needed(
    batch: Batch, architecture: Architecture, memory: int, backward: bool = False, predictions: bool = True
) -> int:
    """Return into how many slices of `memory` bytes a batch is cut; a `backward` pass keeps all activations."""
    needed = len(batch) * _bytes(batch, architecture, backward, predictions)
    return min(len(batch), max(1, math.ceil(needed / memory)))


def cut(batch: Batch, number: int) -> list[Batch]:
    """Return a batch in a number of slices of about equal size, which share its memory."""
    if number == 1:
        return [batch]
    bounds = [len(batch) * k // number for k in range(number + 1)]
    return [batch[start:stop] for start, stop in itertools.pairwise(bounds)]


def predicted(probes: Sequence[AbstractProbe], architecture: Architecture) -> bool:
    """Whether a probe reads predictions, by itself or by edited passes or gradients, which are compared with them."""
    return any(probe.reads_predictions or asks_for_passes(probe, architecture) for probe in probes)


def asks_for_passes(probe: AbstractProbe, architecture: Architecture) -> bool:
    """Whether a probe asks for edited passes or gradients."""
    return any(any(True for _ in each(architecture)) for each in (probe.edits, probe.attributions))


def _bytes(batch: Batch, architecture: Architecture, backward: bool, predictions: bool) -> int:
    """Estimate the bytes that one sequence takes at most: predictions, attention, and the residual stream."""
    length, config = batch.tokens.shape[1], architecture.config
    attention = 4 * architecture.n_layers * architecture.n_heads * length
    stream = ((_KEPT if backward else 3) * architecture.n_layers + 16) * int(config["d_model"])
    outputs = 4 * architecture.n_outputs if predictions else 0
    beside = len(batch.others) if isinstance(batch, Prompts) else 0
    return (1 + beside) * 4 * length * (outputs + attention + stream)


@dataclasses.dataclass(frozen=True, eq=False)
class SlicePasses:
    """One checkpoint's passes on one slice: by hooks without weights; of `mean_input` None, this slice's own."""

    model: models.Model
    batch: Batch
    rows: Float[Tensor, "scored token"]
    activations: Mapping[str, Tensor]
    replacement: models.Replacement
    weights: models.LeanWeights | None
    mean_input: Float[Tensor, "1 pos model"] | None = None
    dtype: models.Dtype = "float32"
    others: Mapping[str, View] = dataclasses.field(default_factory=dict)

    @cached_property
    def _clean(self) -> ScoredPredictions:
        # Gradients need the targets, which are no tensors of inference mode, whoever asks for them first.
        with torch.inference_mode(False), torch.no_grad():
            return ScoredPredictions.of(self.rows, self.batch.targets, self.batch.scored)

    def readout(self) -> models.Readout:
        """Return the model's final norm and unembedding: from the weights of the lean pass, or read and checked."""
        if self.weights is not None:
            return models.Readout(self.weights)
        regression, tokens, scored = self.batch.is_regression, self.batch.tokens, self.batch.scored
        clean, rows = self.activations, self.rows
        if self.dtype != "float32":  # what is read is compared to rounding
            hooks = {residual_hooks_of(self.model.cfg.n_layers)[-1]} | models.rotary_hooks(self.model)
            scored = scored[:1]
            predictions, clean = models.clean_pass(self.model, tokens[:1], hooks, regression=regression)
            rows = predictions[scored]
        return models.readout(self.model, clean, rows, scored, regression=regression, tokens=tokens)

    def attributed(self, requests: Iterable[Attribution]) -> "OnDemand[Attribution, Tensor]":
        """Return the estimates from gradients, each computed when it is asked for, and once."""

        def estimated(request: Attribution) -> Tensor:
            if isinstance(request, AttributePatches):
                return self._patches(request)
            inputs = self.activations[gradients.INPUT]
            mean = inputs.mean(0, keepdim=True) if self.mean_input is None else self.mean_input
            if isinstance(request, AttributeEdges):
                return self._edges(request, mean)
            compute = partial(self._gradients, self._clean.loss)
            return gradients.attributed(request, self.activations, mean, self.replacement, compute)

        return OnDemand(requests, estimated)

    def _edges(self, request: AttributeEdges, mean: Float[Tensor, "#batch pos model"]) -> Tensor:
        """Return the edges of the logit difference, from corrupted prompts, or without them of the loss, from means."""
        objective: gradients.Objective = self._clean.loss
        source: Callable[..., AblateHead] = partial(AblateHead, kind="mean")
        if isinstance(self.batch, Prompts) and (corrupted := self.others.get("corrupted")) is not None:
            mean, objective, source = corrupted.activations[gradients.INPUT], self.batch.at_end, PatchHead
        weights, scored = gradients.check(self.weights, self.model), self.batch.scored
        rest = mean, lambda layer, head: self.replacement(source(layer, head)), objective, scored, self.dtype
        return gradients.edges(request, self.model, weights, self.activations, *rest)

    def _patches(self, request: AttributePatches) -> Float[Tensor, "batch layer head"]:
        """Return the estimated changes of the logit difference, nats, from its gradient by every head's output."""
        assert isinstance(self.batch, Prompts)
        at_each = self._patches_at_each(request.kind)
        return (at_each * self.batch.at(request.place)[..., None, None] if request.place else at_each).sum(1)

    @cached_property
    def _patches_at_each(self) -> Callable[[Patch], Float[Tensor, "batch pos layer head"]]:
        """The estimates of one position each, by kind: those of a place are sums of them."""
        assert isinstance(self.batch, Prompts)
        of_layers = self._gradients(self.batch.at_end)

        def estimated(kind: Patch) -> Float[Tensor, "batch pos layer head"]:
            layers = []
            for layer, gradient in enumerate(of_layers):
                z, heads = self.activations[z_hook(layer)], range(gradient.shape[2])
                patched = [self.replacement(PatchHead(layer, head, kind)).expand(z[:, :, 0].shape) for head in heads]
                layers.append(((torch.stack(patched, 2) - z) * gradient).sum(-1))
            return torch.stack(layers, 2)

        return cache(estimated)

    def _gradients(self, of: gradients.Objective, x: Float[Tensor, "batch pos model"] | None = None) -> list[Tensor]:
        if self.weights is None:
            return gradients.by_model(self.model, self.batch.tokens, of, self.batch.scored, x, dtype=self.dtype)
        rest = self.activations[gradients.INPUT], of, self.batch.scored, x
        return gradients.by_lean_pass(self.model, self.weights, *rest, dtype=self.dtype)

    def edited(self, edits: Iterable[Edit]) -> "OnDemand[Edit, EditedPass]":
        """Return the edited passes, each run and reduced when it is asked for, and once."""

        def reduced(edit: Edit) -> EditedPass:
            with torch.inference_mode():
                blocks = self._blocks(edit)
                if not isinstance(self.batch, Prompts) or self.batch.summed:
                    return EditedPass(*self._clean.compare(blocks), partial(self._predictions, edit))
                logits = torch.cat(list(blocks))
                loss, kl = self._clean.compare([logits])
                return EditedPass(loss, kl, partial(self._predictions, edit), self.batch.at_end(logits))

        return OnDemand(edits, reduced)

    def on(self, rows: slice) -> "SlicePasses":
        """Return the passes on some of the sequences."""

        def of(x: Tensor) -> Tensor:
            return x[rows] if len(x) == len(self.batch) else x

        chosen = torch.zeros_like(self.batch.scored)
        chosen[rows] = True
        rest: Any = {"activations": {name: of(each) for name, each in self.activations.items()}}
        rest |= {"replacement": lambda part: of(self.replacement(part)), "rows": self.rows[chosen[self.batch.scored]]}
        return dataclasses.replace(self, batch=self.batch[rows], **rest)

    def effects(self, edits: Sequence[Edit]) -> Float[Tensor, "change_and_kl batch edit"]:
        """Return the change of the loss, and the KL, nats; on few sequences several heads of a layer are one pass."""
        found, at_once = list[Tensor](), max(1, _ROWS // self.batch.scored.numel())
        for _, of_layer in itertools.groupby(edits, first_layer):
            layer = list(of_layer)
            for start in range(0, len(layer), at_once):
                found.append(self._together(layer[start : start + at_once]))
        loss, kl = torch.cat(found, -1)
        scored = self.batch.scored
        clean = mean_of_rows(prediction_loss(self.rows, self.batch.targets[scored]), scored)
        return torch.stack([loss - clean[:, None], kl])

    def _together(self, edits: Sequence[Edit]) -> Float[Tensor, "loss_and_kl batch edit"]:
        heads = [part for edit in edits for part in edit if isinstance(part, AblateHead)]
        if self._lean_pass is None or any(len(edit) > 1 for edit in edits) or len(heads) < len(edits):
            passes = self.edited(edits)
            return torch.stack([torch.stack([passes[edit].loss, passes[edit].kl]) for edit in edits], -1)
        with torch.inference_mode():
            with models.products_in(self.dtype, self.batch.scored.device):
                residual = self._lean_pass.residuals(heads)
            blocks = self._unembedded(self._lean_pass.weights, residual)
            both = torch.stack(self._clean.repeated(len(heads)).compare(blocks))
        return both.view(2, len(heads), -1).mT

    @cached_property
    def _lean_pass(self) -> LeanPass | None:
        """Edited passes by folded weights, which the first edit that needs them makes; None takes hooks."""
        if self.weights is None:
            return None
        return LeanPass(self.weights.fold(), self.activations, self.batch.scored, self.replacement, self.rows)

    def _blocks(self, edit: Edit) -> Iterator[Float[Tensor, "row token"]]:
        """Return the predictions of the edited pass at the scored positions, a block of rows at a time."""
        if (lean_pass := self._lean_pass) is not None:
            with models.products_in(self.dtype, self.batch.scored.device):
                residual = lean_pass.residual(edit)
            return self._unembedded(lean_pass.weights, residual)
        predictions = models.edited_pass(
            self.model, edit, self.activations, regression=self.batch.is_regression,
            replacement=self.replacement, tokens=self.batch.tokens, dtype=self.dtype,
        )  # fmt: skip
        return iter([predictions[self.batch.scored]])

    def _predictions(self, edit: Edit) -> Float[Tensor, "scored token"]:
        with torch.inference_mode():
            predictions = torch.cat(list(self._blocks(edit)))
        return predictions if self.batch.is_regression else predictions.log_softmax(-1)

    def _unembedded(
        self, weights: models.LeanWeights, residual: Float[Tensor, "scored sum"]
    ) -> Iterator[Float[Tensor, "row token"]]:
        """Yield the predictions of rows of the last residual stream, a block at a time."""
        rows = max(1, _BLOCK // (4 * weights.W_U.shape[1]))
        for start in range(0, len(residual), rows):
            with models.products_in(self.dtype, residual.device):  # and not around who takes the block
                block = weights.unembedded(residual[start : start + rows])
            yield block


def mean_of_groups(values: Float[Tensor, "batch *axes"], group: Int[Tensor, " batch"]) -> Float[Tensor, "batch *axes"]:
    """Return each prompt's mean over the prompts of its length."""
    sums = values.new_zeros(int(group.max()) + 1, *values.shape[1:]).index_add_(0, group, values)
    counts = torch.bincount(group).view(-1, *[1] * (values.dim() - 1))
    return (sums / counts)[group]


def patching(
    replacement: models.Replacement,
    prompts: Prompts,
    clean: Mapping[str, Tensor],
    others: Mapping[str, View],
    patched: Mapping[str, Tensor] | None,
) -> models.Replacement:
    """Return the replacement that knows the prompts that go with these, or those that these go with (`patched`)."""

    def replaced(part: Ablation) -> Tensor:
        if not isinstance(part, PatchHead):
            return replacement(part)
        if part.kind in ("zero", "mean"):
            z = replacement(AblateHead(part.layer, part.head, part.kind))
        else:
            name = "corrupted" if part.kind == "patch" else part.kind
            if patched is None and name not in others:
                raise ValueError(f"the prompts have no {name} ones to patch heads from")
            z = (others[name].activations if patched is None else patched)[z_hook(part.layer)][:, :, part.head]
        if not part.place:
            return z
        return torch.where(prompts.at(part.place)[..., None], z, clean[z_hook(part.layer)][:, :, part.head])

    return replaced


class OnDemand(Mapping[_Key, _Value]):
    """Passes that a probe may ask for: edited ones, or estimates from gradients."""

    def __init__(self, requests: Iterable[_Key], run: Callable[[_Key], _Value]) -> None:
        """Keep the edits that may be asked for, and the way in which each is run."""
        self._requests, self._run = dict.fromkeys(requests), cache(run)

    def __getitem__(self, request: _Key) -> _Value:
        if request not in self._requests:
            raise KeyError(f"{request}: a probe lists what it asks for, in `edits` or in `attributions`")
        return self._run(request)

    def __iter__(self) -> Iterator[_Key]:
        return iter(self._requests)

    def __len__(self) -> int:
        return len(self._requests)
