"""From a probe's readings to rows of the table: batch means, and their intervals from resampled sequences."""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int

from stagewise.checkpoints.series import CheckpointSeries
from stagewise.measurement._printed_table import Table
from stagewise.probe import Reading
from stagewise.statistics import LEVEL
from stagewise.table import Columns, LabelledArray, Quantities, Quantity, declare, in_order, type_of

_SCALAR = {"batch", "reference", "context"}
"""Axes of readings that are a few curves of the whole model, as KL to each reference."""


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


def columns(reading: Reading, weights: np.ndarray, quantity: Quantity | None = None) -> Columns:
    """Turn a reading into rows, a map a row; resampled values are those of what stages and onsets are found in."""
    if _holds_maps(reading):
        return _map_rows(reading)
    names = reading.axes.split()
    values = reading.values.detach().to("cpu").double().numpy()
    statistic = reading.statistic or (lambda means: means)
    if not reading.per_sequence:
        return LabelledArray(" ".join(names), np.asarray(statistic(values)), reading.quantity, reading.labels).columns()
    means = _means(reading, values, weights)
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


def measured_table(blocks: Sequence[Columns], quantities: Quantities) -> pd.DataFrame:
    """Return rows that are given by column as one table, which prints well and declares its quantities."""
    table = Table(tidy_columns(blocks))
    declare(table, quantities)
    return table


def _joined(name: str, blocks: Sequence[Columns]) -> Any:
    """Join one column of all blocks: missing where a block has none."""
    kind: Any = type_of(name)
    sizes = [len(block["value"]) for block in blocks]
    entries = np.full(sum(sizes), np.nan, dtype="f8" if kind == "float64" else "O")
    for block, size, stop in zip(blocks, sizes, itertools.accumulate(sizes), strict=True):
        if name in block:
            entries[stop - size : stop] = block[name]
    return entries if kind in ("float64", "object") else pd.array(entries, dtype=kind)
