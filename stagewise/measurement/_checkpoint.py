"""All readings of one checkpoint: its passes on each slice of the batch, and what the slices add up to."""

import dataclasses
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from tqdm.auto import tqdm

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.attention import z_hook
from stagewise.batch import Prompts
from stagewise.intervention import AblateHead, Ablation, Attribution, Edit, RestrictContext, ablations
from stagewise.loss import Effect
from stagewise.measurement._passes import (
    OnDemand,
    SlicePasses,
    asks_for_passes,
    cut,
    mean_of_groups,
    patching,
    predicted,
)
from stagewise.measurement._rows import checked_readings, merge
from stagewise.models import gradients, lean
from stagewise.probe import AbstractCircuitProbe, AbstractProbe, Reading, View
from stagewise.task import Batch

_FEW = 4
"""Sequences on which a probe of one's own is tried at once, and in halves."""

_ROUNDING = 1e-4
"""Part of the largest value by which passes on another number of sequences differ at most, in float32. Where a probe
reads less than that, as a difference of large numbers, it gets all sequences without need."""

QUIET, SLOW = 5.0, 0.3
"""Seconds of a checkpoint, or of a pass without edits, from which on a bar of its own says which probe is read."""

LEAN, HOOKS = "lean", "with hooks"
"""Ways of edited passes: what an edit changes alone, where that is checked to give the model's numbers, or the model
with TransformerLens's hooks."""


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """The settings by which every checkpoint of a series is measured; some kinds of probes need the `whole` batch."""

    architecture: Architecture
    probes: Sequence[AbstractProbe]
    batch: Batch
    slices: int = 1
    by_hooks: bool = False
    whole: set[str] = dataclasses.field(default_factory=set)
    dtype: models.Dtype = "float32"
    progress: bool = False

    @property
    def parts(self) -> list[Batch]:
        """The slices; not a field, since a process that is sent one is sent all memory of the batch with it."""
        return cut(self.batch, self.slices)


@dataclasses.dataclass(frozen=True, eq=False)
class Checkpoint:
    """One checkpoint, its weights in the model, and by probe the notes of those around that were measured whole."""

    model: models.Model
    step: int
    weights: Mapping[str, Tensor]
    around: Mapping[str, Sequence[Any]] = dataclasses.field(default_factory=dict)


class _Readings(NamedTuple):
    """The readings at a checkpoint, the way of the edited passes, and what probes keep of it."""

    of: dict[str, list[Reading]]
    passes: str
    notes: dict[str, Any]


def readings(plan: Plan, checkpoint: Checkpoint) -> _Readings:
    """Return each probe's readings at a checkpoint."""
    if plan.slices > 1:
        plan.whole.update(type(probe).__name__ for probe in plan.probes if probe.of_all_sequences)
        plan.whole.update(_of_no_slice(dataclasses.replace(plan, dtype="float32"), checkpoint))
    sliced = [probe for probe in plan.probes if type(probe).__name__ not in plan.whole]
    slices = _Slices(plan, sliced, plan.parts, checkpoint)
    total, name = len(sliced) * len(slices.parts), f"step {checkpoint.step}"
    bar = tqdm(total=total, disable=not plan.progress, delay=QUIET, leave=False, desc=name, unit="probe")
    with bar:
        by_kind, way = _of_slices(slices, bar), slices.way
    if missing := [probe for probe in plan.probes if type(probe).__name__ not in by_kind]:
        plan.whole.update(type(probe).__name__ for probe in missing)
        whole = _Slices(plan, missing, [plan.batch], checkpoint)
        by_kind |= _of_slices(whole)
        way = way or whole.way
    effects, notes, of = _FurtherEffects(slices), dict[str, Any](), dict[str, list[Reading]]()
    for probe in plan.probes:
        name = type(probe).__name__
        effects.around, effects.note = checkpoint.around.get(name, ()), None
        of[name], notes[name] = probe.further_readings(by_kind[name], effects), effects.note
    return _Readings(of, way, notes)


def _of_no_slice(plan: Plan, checkpoint: Checkpoint) -> Iterator[str]:
    """Name one's own probes that read a few sequences unlike their halves: free memory would decide their numbers."""
    few = plan.batch[:_FEW]
    halves = cut(few, 2)
    for probe in plan.probes:
        name = type(probe).__name__
        own = not type(probe).__module__.startswith("stagewise.probes.") and name not in plan.whole
        if not own or isinstance(probe, AbstractCircuitProbe):
            continue
        try:
            each = [_of_slices(_Slices(plan, [probe], parts, checkpoint)) for parts in ([few], halves)]
        except (ValueError, RuntimeError):  # what it refuses of a few, it is asked of all
            yield name
            continue
        whole, parts = each[0][name], each[1].get(name)
        if parts is None or len(whole) != len(parts) or not all(map(_equal, whole, parts)):
            yield name


def _equal(one: Reading, other: Reading) -> bool:
    """Whether two readings have the same values, within the rounding of passes on another number of sequences."""
    if one.values.shape != other.values.shape:
        return False
    values, others = one.values.double(), other.values.double()
    scale = float(values.nan_to_num().abs().max()) if values.numel() else 0.0
    return torch.allclose(values, others, rtol=0.0, atol=_ROUNDING * scale, equal_nan=True)


def _beside(prompts: Prompts, name: str) -> Batch:
    """Return prompts that go with others; corrupted ones are asked for the same answers at the same positions."""
    other = prompts.others[name]
    if name == "wrong":
        return other
    return dataclasses.replace(prompts, tokens=other.tokens, relations={}, others={})


class _FurtherEffects:
    """Runs further edits, as `probe.Effects` says: each once on each sequence, whoever asks."""

    def __init__(self, slices: "_Slices") -> None:
        self.architecture, self.sequences = slices.plan.architecture, len(slices.plan.batch)
        self.around: Sequence[Any] = ()
        self.note: Any = None
        self._slices, self._known = slices, dict[Edit, Tensor]()

    def __call__(self, edits: Sequence[Edit], first: int | None = None) -> Effect:
        """Return the effects of edits on the first sequences, one a column; None for all."""
        stop, missing = self.sequences if first is None else first, defaultdict[int, list[Edit]](list)
        for edit in dict.fromkeys(edits):
            missing[self._known[edit].shape[1] if edit in self._known else 0].append(edit)
        for start, some in missing.items():
            if start < stop:
                for edit, further in zip(some, self._slices.effects(some, start, stop).unbind(-1), strict=True):
                    self._known[edit] = torch.cat([self._known[edit], further], 1) if start else further
        change, kl = torch.stack([self._known[edit][:, :stop] for edit in edits], -1)
        return Effect(change, kl)


def _of_slices(slices: "_Slices", bar: "tqdm[Any] | None" = None) -> dict[str, list[Reading]]:
    """Return the readings of those probes whose readings of slices add up, and say which is read."""
    sizes = [len(part) for part in slices.parts]
    read = [slices.read(number, bar) for number in range(len(sizes))]
    if len(read) == 1:
        return read[0]
    merged = {name: _merged([of_slice[name] for of_slice in read], sizes) for name in read[0]}
    architecture = slices.plan.architecture
    for probe in slices.probes:  # readings of passes, not of weights alone, can be the same in every slice by chance
        name = type(probe).__name__
        of_passes = any(probe.hooks(architecture)) or asks_for_passes(probe, architecture)
        if of_passes and not all(reading.per_sequence or reading.means for reading in read[0][name]):
            merged[name] = None
    return {name: whole for name, whole in merged.items() if whole is not None}


def _merged(of_slices: Sequence[Sequence[Reading]], sizes: Sequence[int]) -> list[Reading] | None:
    """Return a probe's readings of all sequences from those of each slice; None if only the whole batch gives them."""
    if len({len(readings) for readings in of_slices}) > 1:
        return None
    merged = [merge(parts, sizes) for parts in zip(*of_slices, strict=True)]
    whole = [reading for reading in merged if reading is not None]
    return whole if len(whole) == len(merged) else None


def _read(probe: AbstractProbe, view: View) -> Sequence[Reading]:
    """Return a probe's readings; refuse one that edits in place what other probes read too."""
    before, refusal = _versions(view), f"{type(probe).__name__} edits in place what probes share: clone it first"
    try:
        given = probe.read(view)
    except RuntimeError as reason:
        if "nplace update to inference tensor" not in str(reason):
            raise
        raise ValueError(refusal) from reason
    after, patterns = _versions(view), vars(view).get("patterns")
    if any(after[key] != version for key, version in before.items()) or (patterns is not None and patterns._version):
        raise ValueError(refusal)
    return given


def _versions(view: View) -> dict[int, int]:
    """Return how often each tensor that probes share was edited."""
    batch = view.batch
    shared = (vars(view), vars(batch), batch.relations, batch.references, view.weights)
    tensors = (each for some in shared for each in some.values() if isinstance(each, Tensor))
    return {id(each): each._version for each in tensors if not each.is_inference()}


class _Slices:
    """The slices of one checkpoint, read one after the other; nothing but readings remains of each."""

    def __init__(
        self,
        plan: Plan,
        probes: Sequence[AbstractProbe],
        parts: Sequence[Batch],
        checkpoint: Checkpoint,
        further: Sequence[Edit] = (),
    ) -> None:
        """List the hooks that probes and edits read, and average over all slices what ablations put in place of z."""
        architecture = plan.architecture
        of_probes = (edit for probe in probes for edit in probe.edits(architecture))
        edits: list[Edit] = list(dict.fromkeys((*further, *of_probes)))
        self.plan, self.probes, self.parts, self.edits = plan, probes, parts, edits
        self.model, self.checkpoint = checkpoint.model, checkpoint
        of_weights = any(isinstance(probe, AbstractCircuitProbe) for probe in probes)
        self.circuits = models.circuits(self.model) if of_weights else None
        self.hooks = {hook for probe in probes for hook in probe.hooks(architecture)}
        models.check_scores(self.model, self.hooks, plan.batch.tokens)
        for edit in edits:
            self.hooks |= models.hooks_for(self.model, edit)
        if edits:
            self.hooks |= {gradients.INPUT} | models.rotary_hooks(self.model)
        if any(isinstance(part, RestrictContext) for edit in edits for part in edit):
            shown = models.shown_hooks(self.model) or ()
            short = shown and plan.batch.tokens.shape[1] <= lean.SHORT
            self.hooks |= {*shown, lean.SCORES} if short else {*shown}
        replaced = {name for edit in edits for part in ablations(edit) for name in models.read_for(part)}
        requests = (request for probe in probes for request in probe.attributions(architecture))
        self.attributions: list[Attribution] = list(dict.fromkeys(requests))
        if self.attributions:
            self.hooks |= gradients.hooks_for_attribution(self.model)
            for layer in range(architecture.n_layers):  # the heads on top are ablated too
                self.hooks |= models.hooks_for(self.model, (AblateHead(layer, 0),))
            replaced |= {gradients.INPUT, *map(z_hook, range(architecture.n_layers))}
        self.predicted = bool(further) or predicted(probes, architecture)
        self.unscored = any(probe.reads_predictions and probe.reads_unscored for probe in probes)
        self.mean, self.last = self._of_all(replaced) if len(parts) > 1 else ({}, [])
        self.lean: models.LeanWeights | None = None
        self.way = ""
        self._first: SlicePasses | None = None

    def read(self, number: int, bar: "tqdm[Any] | None" = None) -> dict[str, list[Reading]]:
        """Return the readings of every probe on one slice."""
        start = time.perf_counter()
        passes, view = self._passes(self.parts[number], number)
        slow = time.perf_counter() - start >= SLOW
        if self.attributions and number == 0:
            self._first = passes  # of all sequences, or of those that are ablated first
        read = {}
        for probe in self.probes:
            name = type(probe).__name__
            if bar is not None:
                bar.set_postfix_str(name, refresh=slow)
            read[name] = checked_readings(probe, _read(probe, view), len(view.batch))
            if bar is not None:
                bar.update()
        return read

    def _passes(
        self, batch: Batch, number: int, patched: Mapping[str, Tensor] | None = None
    ) -> tuple[SlicePasses, View]:
        """Run the clean pass of one slice, or of prompts that go with it, `patched` from it; return the passes from
        there, and what probes see.
        """
        log_probs, rows, activations = self._clean(batch)
        if not self.way and (self.edits or self.attributions):
            self._choose_way(batch, rows, activations)
        replaced, mean_input = self._replacement(number, activations), self.mean.get(gradients.INPUT)
        others: Mapping[str, View] = {}
        if isinstance(batch, Prompts):
            if patched is None:
                others = OnDemand(batch.others, lambda name: self._passes(_beside(batch, name), number, activations)[1])
            replaced = patching(replaced, batch, activations, others, patched)
        passes = SlicePasses(
            self.model, batch, rows, activations, replaced, self.lean, mean_input, self.plan.dtype, others
        )
        view = View(
            self.checkpoint.step,
            self.plan.architecture,
            batch,
            log_probs,
            activations,
            weights=self.checkpoint.weights,
            circuits=self.circuits,
            edited=passes.edited(self.edits),
            attributed=passes.attributed(self.attributions),
            find_readout=passes.readout,
            others=others,
            rows=rows,
        )
        return passes, view

    def _clean(self, batch: Batch) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Return the predictions of the clean pass at all positions and at the scored ones, and its activations."""
        scored, dtype, outputs = batch.scored, self.plan.dtype, self.plan.architecture.n_outputs
        nan = torch.tensor(torch.nan, device=scored.device)
        unread, rows = nan.expand(*scored.shape, outputs), nan.expand(int(scored.sum()), outputs)
        if not self.predicted:
            return unread, rows, models.activations_alone(self.model, batch.tokens, self.hooks, dtype=dtype)
        how: Any = {"others": self.unscored, "regression": batch.is_regression, "dtype": dtype}
        rows, whole, activations = models.scored_pass(self.model, batch.tokens, self.hooks, scored, **how)
        return unread if whole is None else whole, rows, activations

    def _choose_way(self, batch: Batch, rows: Tensor, activations: Mapping[str, Tensor]) -> None:
        """Choose the way of the edited passes by what float32 shows, and check there what they assume."""
        regression, scored = batch.is_regression, batch.scored
        if self.plan.dtype != "float32":
            few, scored = batch.tokens[: lean.TRIED], scored[: lean.TRIED]
            rows, _, activations = models.scored_pass(self.model, few, self.hooks, scored, regression=regression)
            for part in {part for edit in self.edits for part in ablations(edit)}:
                models.check_factors(part, activations)
        if not self.plan.by_hooks:
            self.lean = lean.agreeing_weights(self.model, activations, rows, scored, regression=regression)
        self.way = HOOKS if self.lean is None else LEAN
        if self.lean is None:
            parts = (part for edit in self.edits for part in edit)
            kinds = {AblateHead if isinstance(part, AblateHead) else type(part) for part in parts}
            models.check_edits(self.model, kinds | ({AblateHead} if self.attributions else set()), batch.tokens)

    def effects(self, edits: Sequence[Edit], start: int, stop: int) -> Float[Tensor, "change_and_kl batch edit"]:
        """Return the effects of further edits on some sequences, from the first slice's passes, or anew."""
        read = {name for edit in edits for name in models.hooks_for(self.model, edit)}
        replaced = {name for edit in edits for part in ablations(edit) for name in models.read_for(part)}
        if not read <= self.hooks or (len(self.parts) > 1 and not replaced <= self.mean.keys()):
            return _Slices(self.plan, [], self.parts, self.checkpoint, edits).effects(edits, start, stop)
        found, first = list[Tensor](), 0
        for number, part in enumerate(self.parts):
            rows = slice(max(start - first, 0), max(stop - first, 0))
            first += len(part)
            if rows.start < min(rows.stop, len(part)):
                passes = self._first if self._first and number == 0 else self._passes(part, number)[0]
                found.append(passes.on(rows).effects(edits))
        return torch.cat(found, 1)

    def _of_all(self, names: Iterable[str]) -> tuple[Mapping[str, Tensor], list[Mapping[str, Tensor]]]:
        """Return the mean of activations over all sequences [1 pos ...], and each slice's last one."""
        names, total = sorted(names), dict[str, Tensor]()
        last: list[Mapping[str, Tensor]] = []
        if not names:
            return total, last
        for batch in self.parts:
            clean = models.activations_alone(self.model, batch.tokens, names, dtype=self.plan.dtype)
            total = {name: total.get(name, 0) + each.sum(0, keepdim=True) for name, each in clean.items()}
            last.append({name: each[-1:].clone() for name, each in clean.items()})
        n = sum(map(len, self.parts))
        return {name: each / n for name, each in total.items()}, last

    def _replacement(self, number: int, clean: Mapping[str, Tensor]) -> models.Replacement:
        checked = self.plan.dtype != "float32"
        if len(self.parts) == 1:
            batch = self.parts[0]
            grouped = isinstance(batch, Prompts) and batch.several_lengths
            group = batch.group if isinstance(batch, Prompts) else torch.empty(0)
            mean = OnDemand(clean, lambda name: mean_of_groups(clean[name], group)) if grouped else None
            return partial(models.replacement, clean=clean, mean=mean, checked=checked)

        def replaced(part: Ablation) -> Tensor:
            if not isinstance(part, AblateHead) or part.kind != "resample":
                return models.replacement(part, clean, self.mean, checked=checked)
            z = clean[z_hook(part.layer)][:, :, part.head]
            return torch.cat([self.last[number - 1][z_hook(part.layer)][:, :, part.head], z[:-1]])

        return replaced
