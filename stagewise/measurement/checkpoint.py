"""All readings of one checkpoint: its passes on each slice of the batch, and what the slices add up to."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.intervention import AblateHead, Edit
from stagewise.measurement.passes import Measured
from stagewise.measurement.rows import merge
from stagewise.models import Model, lean
from stagewise.models.edits import Replacement, replacement
from stagewise.models.lean_weights import LeanWeights, rotary_hooks
from stagewise.probe import AbstractCircuitProbe, AbstractProbe, Reading, View
from stagewise.task import Batch

Layers = Mapping[int, Tensor]
"""By layer: of z."""


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """What every checkpoint of a series is measured by.

    Args:
        architecture: of the models.
        probes: what to measure.
        parts: the batch, in slices.
        by_hooks: whether edited passes are run with hooks even where the lean pass agrees.
        whole: the kinds of probes that need the whole batch at once, as they are found.
    """

    architecture: Architecture
    probes: Sequence[AbstractProbe]
    parts: Sequence[Batch]
    by_hooks: bool = False
    whole: set[str] = dataclasses.field(default_factory=set)


@dataclasses.dataclass(frozen=True, eq=False)
class Checkpoint:
    """One checkpoint, its weights in the model."""

    model: Model
    step: int
    weights: Mapping[str, Tensor]


def readings(plan: Plan, checkpoint: Checkpoint) -> dict[str, list[Reading]]:
    """Return what each probe, by the name of its kind, reads at a checkpoint."""
    sliced = [probe for probe in plan.probes if type(probe).__name__ not in plan.whole]
    found = _of_slices(plan, sliced, plan.parts, checkpoint)
    if missing := [probe for probe in plan.probes if type(probe).__name__ not in found]:
        plan.whole.update(type(probe).__name__ for probe in missing)
        found |= _of_slices(plan, missing, [joined(plan.parts)], checkpoint)
    return {type(probe).__name__: found[type(probe).__name__] for probe in plan.probes}


def _of_slices(
    plan: Plan, probes: Sequence[AbstractProbe], parts: Sequence[Batch], checkpoint: Checkpoint
) -> dict[str, list[Reading]]:
    """Return the readings of those probes whose readings of slices add up."""
    slices = Slices(plan, probes, parts, checkpoint)
    read = [slices.read(number) for number in range(len(parts))]
    sizes, found = [len(part) for part in parts], {}
    for name in read[0]:
        each = [of_slice[name] for of_slice in read]
        if len({len(one) for one in each}) == 1:
            merged = [merge(one, sizes) for one in zip(*each, strict=True)]
            if len(parts) == 1:
                found[name] = each[0]
            elif None not in merged:
                found[name] = [reading for reading in merged if reading is not None]
    return found


class Slices:
    """The slices of one checkpoint, read one after the other; nothing but readings remains of each."""

    def __init__(
        self, plan: Plan, probes: Sequence[AbstractProbe], parts: Sequence[Batch], checkpoint: Checkpoint
    ) -> None:
        """List the hooks that probes and edits read, and average z over all slices where an ablation needs it."""
        architecture = plan.architecture
        edits: list[Edit] = list(dict.fromkeys(edit for probe in probes for edit in probe.edits(architecture)))
        self.plan, self.probes, self.parts, self.edits = plan, probes, parts, edits
        self.model, self.checkpoint = checkpoint.model, checkpoint
        self.circuits = (
            models.circuits(self.model) if any(isinstance(probe, AbstractCircuitProbe) for probe in probes) else None
        )
        self.hooks = {hook for probe in probes for hook in probe.hooks(architecture)}
        for edit in edits:
            self.hooks |= models.hooks_for(self.model, edit)
        if edits:
            self.hooks |= {"blocks.0.hook_resid_pre"} | rotary_hooks(self.model)
        ablated = {part.layer for edit in edits for part in edit if isinstance(part, AblateHead)}
        self.mean, self.last = self._z_of_all(sorted(ablated)) if len(parts) > 1 else ({}, [])
        self.lean: LeanWeights | None = None

    def read(self, number: int) -> dict[str, list[Reading]]:
        """Return the readings of every probe on one slice."""
        batch = self.parts[number]
        log_probs, activations = models.clean_pass(self.model, batch.tokens, self.hooks, regression=batch.is_regression)
        if number == 0 and self.edits and not self.plan.by_hooks:
            self.lean = lean.agreeing_weights(self.model, activations, log_probs, regression=batch.is_regression)
        replaced = self._replacement(number, activations)
        measured = Measured(self.model, batch, log_probs, activations, replaced, self.lean)
        edited = measured.edited(self.edits)
        step, weights = self.checkpoint.step, self.checkpoint.weights
        view = View(step, self.plan.architecture, batch, log_probs, activations, edited, weights, self.circuits)
        return {type(probe).__name__: probe.read(view) for probe in self.probes}

    def _z_of_all(self, layers: Iterable[int]) -> tuple[Layers, list[Layers]]:
        """Return the mean z [pos head d_head] of each layer over all sequences, and each slice's last one."""
        names = {layer: f"blocks.{layer}.attn.hook_z" for layer in layers}
        total: dict[int, Tensor] = {}
        last: list[Layers] = []
        for batch in self.parts if names else ():
            _, clean = models.clean_pass(self.model, batch.tokens, names.values(), regression=batch.is_regression)
            z = {layer: clean[name] for layer, name in names.items()}
            total = {layer: total.get(layer, 0) + each.sum(0) for layer, each in z.items()}
            last.append({layer: each[-1:].clone() for layer, each in z.items()})
        n = sum(map(len, self.parts))
        return {layer: each / n for layer, each in total.items()}, last

    def _replacement(self, number: int, clean: Mapping[str, Tensor]) -> Replacement:
        if len(self.parts) == 1:
            return partial(replacement, clean=clean)

        def replaced(part: AblateHead) -> Tensor:
            if part.kind == "mean":
                return self.mean[part.layer][None, :, part.head]
            if part.kind == "zero":
                return replacement(part, clean)
            z = clean[f"blocks.{part.layer}.attn.hook_z"][:, :, part.head]
            return torch.cat([self.last[number - 1][part.layer][:, :, part.head], z[:-1]])

        return replaced


def joined(parts: Sequence[Batch]) -> Batch:
    """Return the batch that consecutive slices were cut from."""
    first = parts[0]
    if len(parts) == 1:
        return first
    return dataclasses.replace(
        first,
        tokens=torch.cat([part.tokens for part in parts]),
        targets=torch.cat([part.targets for part in parts]),
        scored=torch.cat([part.scored for part in parts]),
        relations={name: torch.cat([part.relations[name] for part in parts]) for name in first.relations},
        references={name: torch.cat([part.references[name] for part in parts]) for name in first.references},
    )
