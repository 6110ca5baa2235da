"""From a probe's readings to rows of the table: means, and intervals from resampled sequences; how the table prints."""

import dataclasses
import itertools
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int

from stagewise.architecture import Architecture
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.intervention import Attribution, Edit, ablations
from stagewise.probe import AbstractProbe, Reading
from stagewise.statistics import LEVEL
from stagewise.table import ARRAYS, KEYS, VALUES, WEIGHTS, Columns, LabelledArray, Quantity, in_order, type_of
from stagewise.task import Batch

_ENDS = 8
"""Rows that are printed at either end of a long table."""

_LOOK: dict[str, Any] = {"na_rep": "", "float_format": "{:.4g}".format}

_SCALAR = {"batch", "reference", "context"}
"""Axes of readings that are a few curves of the whole model, as KL to each reference."""

_NOT_FINITE = "not_finite"
"""Quantity of the row that marks a checkpoint with nan or infinity: how many of its weights hold any."""


class Table(pd.DataFrame):
    """A tidy frame that prints well: axes in one column, few rows, without resamples and maps."""

    @property
    def _constructor(self) -> type["Table"]:
        return Table

    def __repr__(self) -> str:
        return f"{_printed(self).to_string(index=False, **_LOOK)}\n{_size(self)}"

    def to_csv(self, *arguments: Any, **options: Any) -> Any:
        """Write as pandas does, without the columns of arrays unless `columns` names them."""
        rows = self if options.get("columns") is not None else self.drop(columns=ARRAYS, errors="ignore")
        return pd.DataFrame(rows).to_csv(*arguments, **options)

    def _repr_html_(self) -> str:
        return f"{_printed(self).to_html(index=False, **_LOOK)}<p>{_size(self)}</p>"


def _printed(table: pd.DataFrame) -> pd.DataFrame:
    ends = table if len(table) <= 2 * _ENDS else pd.concat([table.head(_ENDS), table.tail(_ENDS)])
    shown = pd.DataFrame(ends).drop(columns=ARRAYS, errors="ignore")
    if not {*KEYS, "value"} <= set(shown.columns):
        return shown
    axes = shown.drop(columns=[*KEYS, *VALUES], errors="ignore")
    values = shown[[name for name in VALUES if name in shown and (name == "value" or shown[name].notna().any())]]
    values = values.astype("float64")
    where = [
        ", ".join(f"{name} {label}" for name, label in row.items() if not pd.isna(label))
        for row in axes.to_dict("records")
    ]
    return pd.concat([shown[KEYS], pd.Series(where, shown.index, object, "axes"), values], axis=1)


def _size(table: pd.DataFrame) -> str:
    shown = f", the first and the last {_ENDS} shown" if len(table) > 2 * _ENDS else ""
    return f"{len(table)} rows{shown}"


def bootstrap_weights(n: int, resamples: int, seed: int = 0) -> np.ndarray:
    """Return shares [resample, sequence], the same at every checkpoint, so that a resample is of whole curves."""
    generator = np.random.default_rng(seed)
    return generator.multinomial(n, np.full(n, 1 / n), size=resamples) / n


def merge(parts: Sequence[Reading], sizes: Sequence[int]) -> Reading | None:
    """Return one reading of all sequences from its readings of slices; None if only the whole batch gives it."""
    first, *others = parts
    labels = {name: list(entries) for name, entries in first.labels.items()}
    for other in others:
        if (other.axes, other.quantity) != (first.axes, first.quantity):
            return None
        if {name: list(entries) for name, entries in other.labels.items()} != labels:
            return None
    if first.per_sequence:
        return dataclasses.replace(first, values=torch.cat([part.values for part in parts]), exists=_exists(parts))
    if first.means:
        weighted = [size * part.values for size, part in zip(sizes, parts, strict=True)]
        return dataclasses.replace(first, values=torch.stack(weighted).sum(0) / sum(sizes))
    same = all(torch.equal(first.values, other.values) for other in others)
    return first if same else None  # the same in every slice: it reads the weights


def _exists(parts: Sequence[Reading]) -> torch.Tensor | None:
    """Return which values of all sequences exist, from those of slices; None where all do."""
    known = [part.exists for part in parts if part.exists is not None]
    if not known:
        return None
    sizes = np.broadcast_shapes(*(each.shape[1:] for each in known))
    everywhere = torch.ones((), dtype=torch.bool, device=known[0].device)
    masks = [everywhere if part.exists is None else part.exists for part in parts]
    return torch.cat([mask.expand(len(part.values), *sizes) for mask, part in zip(masks, parts, strict=True)])


def rows(reading: Reading, weights: np.ndarray, quantity: Quantity | None = None) -> pd.DataFrame:
    """Return the rows of a reading: see `columns`."""
    return pd.DataFrame(columns(reading, weights, quantity))


def columns(
    reading: Reading, weights: np.ndarray, quantity: Quantity | None = None, known: dict[Any, Any] | None = None
) -> Columns:
    """Turn a reading into rows, a map a row; resampled values are those of what stages and onsets are found in.

    Readings of the same values, with other statistics, share their means by `known`, for as long as they are there.
    """
    if _holds_maps(reading):
        return _map_rows(reading)
    names = reading.axes.split()
    values = reading.values.detach().to("cpu").double().numpy()
    statistic = reading.statistic or (lambda means: means)
    if not reading.per_sequence:
        return LabelledArray(" ".join(names), np.asarray(statistic(values)), reading.quantity, reading.labels).columns()
    known, key = {} if known is None else known, (id(reading.values), id(reading.exists))
    if key not in known:
        known[key] = _means(reading, values, weights)
    means: _Means = known[key]
    value = np.asarray(statistic(means.value))
    entries = LabelledArray(" ".join(names[1:]), value, reading.quantity, reading.labels).columns()
    n = _counts(reading, means.n)
    if means.resampled is None:
        return _existing(entries, n)
    resampled = statistic(means.resampled)
    flat = resampled.reshape(len(resampled), -1)
    tail = (1 - LEVEL) / 2
    lo, hi = np.quantile(flat, (tail, 1 - tail), axis=0)
    # A maximum over noise is larger in every resample, a constant differs by rounding: include the value.
    lo, hi = np.minimum(lo, value.reshape(-1)), np.maximum(hi, value.reshape(-1))
    if reading.margin is not None:
        margin = reading.margin.cpu().numpy().reshape(-1)
        least = -np.inf if quantity is None or quantity.range[0] is None else quantity.range[0]
        lo, hi = np.where(margin > 0, np.maximum(lo - margin, least), lo), hi + margin
    bounds: dict[str, Any] = {"lo": lo, "hi": hi, "n": n}
    if set(reading.axes.split()) <= _SCALAR or (quantity is not None and quantity.progress is not None):
        bounds["resamples"] = _as_objects(flat.T.astype(np.float32))
    return _existing({**entries, **bounds}, n)


class _Means(NamedTuple):
    """Means over the sequences with a value, also by resample; 0 where there is none, as on missing keys."""

    value: Float[np.ndarray, " *axes"]
    resampled: Float[np.ndarray, "resample *axes"] | None
    n: Int[np.ndarray, " *axes"]


def _means(reading: Reading, values: np.ndarray, weights: np.ndarray) -> _Means:
    """Average values [sequence ...] over those that exist; a resample without any of them has the mean of all."""
    size, inner = len(values), values.shape[1:]
    if reading.exists is None:
        resampled = (weights @ values.reshape(size, -1)).reshape(-1, *inner) if len(weights) else None
        return _Means(values.mean(0), resampled, np.full(inner, size))
    exists = np.broadcast_to(reading.exists.cpu().numpy(), values.shape)
    values, n = np.where(exists, values, 0.0).reshape(size, -1), exists.sum(0)
    mean = values.sum(0) / np.maximum(n.reshape(-1), 1)
    if not len(weights):
        return _Means(mean.reshape(inner), None, n)
    share = weights @ exists.reshape(size, -1).astype(float)
    resampled = np.divide(weights @ values, share, out=np.tile(mean, (len(weights), 1)), where=share > 0)
    return _Means(mean.reshape(inner), resampled.reshape(-1, *inner), n)


def _counts(reading: Reading, n: np.ndarray) -> np.ndarray | int:
    """Return how many sequences each row is a mean over; of a statistic the fewest that enter it."""
    if reading.taken is not None:
        return reading.taken.cpu().numpy().reshape(-1)
    if reading.exists is None:
        return len(reading.values)
    return int(n[n > 0].min(initial=len(reading.values))) if reading.statistic else n.reshape(-1)


def _existing(block: Columns, n: np.ndarray | int) -> Columns:
    """Return the rows of what some sequence has."""
    if np.all(n):
        return block
    rows = np.flatnonzero(n)
    return {name: _taken(entries, rows) for name, entries in block.items()}


def _taken(entries: Any, rows: np.ndarray) -> Any:
    """Return some rows of a column; what is one entry for all of them stays as it is."""
    if isinstance(entries, tuple):
        return np.array(entries, dtype=object)[rows].tolist()
    return entries[rows] if isinstance(entries, np.ndarray) else entries


def _as_objects(arrays: np.ndarray) -> np.ndarray:
    """Return an array whose entries are the rows of another."""
    entries = np.empty(len(arrays), dtype=object)
    entries[:] = list(arrays)
    return entries


def _holds_maps(reading: Reading) -> bool:
    """Whether the last two axes are all queries and all keys, from 0 on: a map that needs neither labels nor sizes."""
    names, sizes = reading.axes.split(), reading.values.shape[-2:]
    if names[-2:] != ["query", "key"]:
        return False
    counted = all(list(reading.labels.get(name, ())) == [*range(sizes[0])] for name in ("query", "key"))
    return names[0] != "batch" and sizes[0] == sizes[1] and counted


def _map_rows(reading: Reading) -> Columns:
    others = " ".join(reading.axes.split()[:-2])
    cells = reading.values.detach().to("cpu").float().flatten(-2).numpy()
    maps = LabelledArray(others, np.full(cells.shape[:-1], np.nan), reading.quantity, reading.labels).columns()
    return {**maps, "map": _as_objects(cells.reshape(-1, cells.shape[-1]))}


def checkpoint_labels(series: CheckpointSeries, step: int) -> dict[str, Any]:
    """Return the columns that every row of a checkpoint has: run and step, and tokens and seed where they are known."""
    known = {"run": series.name, "step": step, "tokens": series.tokens.get(step), "seed": series.seed}
    return {name: label for name, label in known.items() if label is not None}


def tidy_columns(blocks: Sequence[Columns]) -> pd.DataFrame:
    """Join rows that are given by column into one table, as `tidy` does, without a frame for each block."""
    columns = in_order(name for block in blocks for name in block)
    return pd.DataFrame({name: _joined(name, blocks) for name in columns})


def _joined(name: str, blocks: Sequence[Columns]) -> Any:
    """Join one column of all blocks: missing where a block has none."""
    kind: Any = type_of(name)
    sizes = [len(block["value"]) for block in blocks]
    entries = np.full(sum(sizes), np.nan, dtype="f8" if kind == "float64" else "O")
    for block, size, stop in zip(blocks, sizes, itertools.accumulate(sizes), strict=True):
        if name in block:
            entries[stop - size : stop] = block[name]
    return entries if kind in ("float64", "object") else pd.array(entries, dtype=kind)


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


def unmeasured(names: Sequence[str], where: str) -> pd.DataFrame:
    """Return the row that marks weights with nan or infinity: TransformerLens would replace their patterns by zeros."""
    more = f", and {len(names) - 1} more" if len(names) > 1 else ""
    warnings.warn(f"{where} holds nan or infinity ({names[0]}{more}): nothing is measured there", stacklevel=2)
    return pd.DataFrame([{"probe": WEIGHTS, "quantity": _NOT_FINITE, "value": float(len(names))}])
