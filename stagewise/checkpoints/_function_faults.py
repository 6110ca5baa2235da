"""Faults that only what the models compute shows: the predictions of each checkpoint on one batch, and their loss."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.checkpoints._comparisons import at_entry
from stagewise.checkpoints._outliers import detours
from stagewise.checkpoints._sketches import Sketch, sketched
from stagewise.checkpoints._weight_files import not_finite
from stagewise.checkpoints._weight_path import ENOUGH, paths_of
from stagewise.checkpoints.findings import Finding, Kind
from stagewise.checkpoints.sources import Entry, Source
from stagewise.loss import mean_scored, prediction_loss
from stagewise.models._numbers import check_device
from stagewise.task import Batch

PREDICTIONS = "predictions"

WORSE = 0.2
"""Part of the whole range of losses by which a loss that nothing explains exceeds those about it."""

USUAL_RISE = 3.0
"""And so many times the largest rise between any two other neighbours."""


Elsewhere = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""A function that calls another one for each item in other processes, and returns the values as `map` does."""


class Computed(NamedTuple):
    """A checkpoint's output on the batch: the mean loss in nats, and a sketch of its predictions."""

    entry: Entry
    loss: float
    sketch: Sketch


def function_faults(
    source: Source,
    entries: Sequence[Entry],
    architecture: Architecture,
    batch: Batch,
    device: str = "cpu",
    elsewhere: Elsewhere | None = None,
) -> Iterator[Finding]:
    """Run each checkpoint once, and look for those whose function lies off the path of the others'.

    Predictions are compared as the roots of their probabilities, whose distances are Hellinger's: tokens that are
    unlikely everywhere count little. Checkpoints that do not fit the model are left out.
    """
    check_device(device)
    batch.check_ids(architecture.config["d_vocab"], f"the series {source.name}", architecture.n_outputs)
    model, batch = models.unloaded(architecture, device=device), batch.to(device)
    if elsewhere is None:
        computed = [one for entry in entries if (one := compute(model, entry, batch)) is not None]
    else:
        there = elsewhere(partial(_numbered, architecture, entries, batch, device), range(len(entries)))
        computed = [Computed(entry, *one) for entry, one in zip(entries, there, strict=True) if one is not None]
    if entries and not computed:
        models.load(model, entries[0].load())  # says why none of them fits
    for branch in sorted({one.entry.at.branch for one in computed}):
        of_branch = [one for one in computed if one.entry.at.branch == branch]
        yield from off_the_path(sorted(of_branch, key=lambda one: one.entry.at.step))


def compute(model: models.Model, entry: Entry, batch: Batch) -> Computed | None:
    """Run a checkpoint on the batch; None where its weights are not finite, or do not fit the model."""
    try:
        state = entry.load()
        if not_finite(state):
            return None
        models.load(model, state)
    except (ValueError, OSError):  # findings of their own
        return None
    predictions, _ = models.clean_pass(model, batch.tokens, (), regression=batch.is_regression)
    loss = float(mean_scored(prediction_loss(predictions, batch.targets), batch.scored).mean())
    scored: Tensor = predictions[batch.scored].cpu()
    with torch.inference_mode():
        numbers = scored.clone() if batch.is_regression else (scored / 2).exp()
    return Computed(entry, loss, sketched({PREDICTIONS: numbers})[PREDICTIONS])


def _numbered(
    architecture: Architecture, entries: Sequence[Entry], batch: Batch, device: str, number: int
) -> tuple[float, Sketch] | None:
    """Run the checkpoint of a number, without its entry, which need not be sent back."""
    computed = compute(models.unloaded(architecture, device=device), entries[number], batch)
    return None if computed is None else (computed.loss, computed.sketch)


def off_the_path(computed: Sequence[Computed]) -> Iterator[Finding]:
    """Yield the checkpoints of one branch, in the order of their steps, whose function lies off the others' path."""
    paths = paths_of([{PREDICTIONS: one.sketch} for one in computed])
    times = {one.checkpoint: one.times for path in paths for one in detours(path)}
    losses = np.array([one.loss for one in computed])
    for row in sorted(times.keys() | _worse(losses, [row for row in range(len(losses)) if row not in times])):
        beside = [f"{losses[k]:.3g}" for k in (row - 1, row + 1) if 0 <= k < len(losses)]
        reason = f"loss {losses[row]:.3g}, beside it {' and '.join(beside)}"
        yield at_entry(Kind.OUTLYING_FUNCTION, computed[row].entry, times=times.get(row), reason=reason)


def _worse(losses: np.ndarray, rows: Sequence[int]) -> set[int]:
    """Return the rows, of these, whose loss exceeds its neighbours' unexpectedly."""
    usual, found = losses[list(rows)], set[int]()
    if len(rows) < ENOUGH or not np.isfinite(usual).all():
        return found
    for i in range(1, len(rows)):
        others = np.delete(usual, i)
        if excess(usual, i) > max(WORSE * np.ptp(others), USUAL_RISE * np.diff(others).max()):
            found.add(rows[i])
    return found


def excess(losses: Float[np.ndarray, " checkpoint"], row: int) -> float:
    """Return by how much a loss exceeds both of its neighbours', of the last one its only one's, nats."""
    return float(min(losses[row] - losses[k] for k in (row - 1, row + 1) if 0 <= k < len(losses)))
