"""Checks of a measurement: batches, edits, readings and weights that give no number are refused or marked."""

import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd

from stagewise.architecture import Architecture
from stagewise.checkpoints._weight_files import State, not_finite
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.intervention import Attribution, Edit, ablations
from stagewise.probe import AbstractProbe, Reading
from stagewise.table import WEIGHTS
from stagewise.task import Batch

_NOT_FINITE = "not_finite"
"""Quantity of the row that marks a checkpoint with nan or infinity: how many of its weights hold any."""


def check_series(series: object) -> None:
    """Refuse a value that is no series of checkpoints, as the path of one."""
    if not isinstance(series, CheckpointSeries):
        raise ValueError(f"a series is what `stagewise.open_series` returns, got {type(series).__name__}")


def check_batch(
    batch: Batch,
    architecture: Architecture,
    edits: Iterable[Edit],
    of: str = "the model",
    attributions: Iterable[Attribution] = (),
) -> None:
    """Refuse a batch that the models of a series cannot read, or whose edited passes would not say what they claim."""
    if not isinstance(batch, Batch):
        raise ValueError(
            f"the batch is a Batch, which `Batch.from_tokens` makes of sequences, got {type(batch).__name__}"
        )
    batch.check_ids(architecture.config["d_vocab"], of, architecture.n_outputs)
    _check_widths(batch, architecture, of)
    if (length := batch.tokens.shape[1]) > (n_ctx := architecture.config["n_ctx"]):
        raise ValueError(f"the batch has {length} positions, and {of} has {n_ctx}: shorten it")
    if unscored := (~batch.scored.any(1)).nonzero()[:, 0].tolist():
        raise ValueError(
            f"sequences {', '.join(map(str, unscored))} of the batch have no scored position: leave them out"
        )
    kinds = {part.kind for edit in edits for part in ablations(edit)} | {each.kind for each in attributions}
    if len(batch) < 2 and (kinds := kinds - {"zero"}):
        raise ValueError(
            f"{' and '.join(sorted(kinds))} ablation replaces an output by that of other sequences, and the "
            'batch has one: give at least two, ablate by "zero", as HeadAblation(kinds=("zero",)), or leave out what '
            "asks for it, as by --without HeadAblation"
        )


def _check_widths(batch: Batch, architecture: Architecture, of: str) -> None:
    """Refuse numbers at a position that are not as many as the model reads, predicts or attends to."""
    vectors = batch.tokens.is_floating_point()
    sizes = [("its input vectors", batch.tokens, int(architecture.config["d_vocab"]))] if vectors else []
    sizes += [("its targets", batch.targets, architecture.n_outputs)] if batch.is_regression else []
    sizes += [(f"its reference {name!r}", each, architecture.n_outputs) for name, each in batch.references.items()]
    length = batch.tokens.shape[1]
    sizes += [(f"its relation {name!r}", each, length) for name, each in batch.relations.items()]
    for what, values, size in sizes:
        if values.shape[2:] != (size,):
            expected, got = (*batch.tokens.shape[:2], size), tuple(values.shape)
            raise ValueError(f"the batch does not fit {of}: {what} should be of the shape {expected}, got {got}")


def checked_readings(probe: AbstractProbe, given: Any, sequences: int) -> list[Reading]:
    """Return the checked reading of a probe on so many sequences."""
    name = type(probe).__name__
    readings: list[Any] = list(given) if isinstance(given, Iterable) else [None]
    if not all(isinstance(each, Reading) for each in readings):
        raise ValueError(f"{name}.read returns a list of readings, got {type(given).__name__}")
    for each in readings:
        if each.per_sequence and len(each.values) != sequences:
            raise ValueError(
                f"{name} reads {each.quantity!r} of {len(each.values)} sequences, and `view.batch` has {sequences}: "
                'the axis "batch" holds one value a sequence'
            )
    return readings


def finite_states(series: CheckpointSeries, states: Iterable[tuple[int, State]]) -> Iterator[tuple[int, State]]:
    """Yield the steps and weights of a series that are finite, and warn of the others."""
    for step, state in states:
        if unmeasured(state, f"step {step} of {series.name!r}") is None:
            yield step, state


def unmeasured(state: State, where: str) -> pd.DataFrame | None:
    """Return the row that marks weights with nan or infinity: TransformerLens would replace their patterns by zeros."""
    if not (names := not_finite(state)):
        return None
    more = f", and {len(names) - 1} more" if len(names) > 1 else ""
    warnings.warn(f"{where} holds nan or infinity ({names[0]}{more}): nothing is measured there", stacklevel=2)
    return pd.DataFrame([{"probe": WEIGHTS, "quantity": _NOT_FINITE, "value": float(len(names))}])
