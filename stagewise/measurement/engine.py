"""The shared-pass engine: every probe on every checkpoint, same batch, same code, only the weights vary."""

import concurrent.futures
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

import pandas as pd

from stagewise.batch import Prompts
from stagewise.checkpoints.run_folder import write
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.intervention import AttributeEdges
from stagewise.measurement._checkpoint import Plan
from stagewise.measurement._earlier import PASSES, Earlier, join, join_into, parts_folder, passes_of, rows_of
from stagewise.measurement._measuring import Measurement, measure_due, write_part
from stagewise.measurement._passes import default_memory, enough, predicted, slices_needed
from stagewise.measurement._provenance import PROBES, in_words, provenance
from stagewise.measurement._rows import Table, check_batch
from stagewise.models import Dtype, check_device, check_dtype
from stagewise.probe import AbstractProbe
from stagewise.table import Quantity, declare, tidy
from stagewise.task import Batch


class Resources(TypedDict, total=False):
    """Arguments of `measure` by these names: where a measurement runs, in what, and whether it shows a bar."""

    device: str
    dtype: Dtype
    workers: int
    memory: int | None
    progress: bool


def measure(
    series: CheckpointSeries | Sequence[CheckpointSeries],
    probes: Sequence[AbstractProbe],
    batch: Batch,
    *,
    folder: str | Path | None = None,
    save: str | Path | None = None,
    resamples: int = 200,
    device: str = "cpu",
    dtype: Dtype = "float32",
    memory: int | None = None,
    workers: int = 1,
    executor: concurrent.futures.Executor | None = None,
    by_hooks: bool = False,
    progress: bool = True,
) -> pd.DataFrame:
    """Run the probes on every checkpoint of the series and return one tidy table.

    A checkpoint costs one clean pass, and for each different edit the part that it changes: see `models._lean`. The
    batch goes through in slices that fit into a budget of memory. Every probe reads the same numbers as if it ran
    alone. Rows go to disk checkpoint by checkpoint, and a large table is mapped from a file.

    Args:
        series: the checkpoints; the next one is read while one is measured. Several series give one table.
        probes: what to measure.
        batch: the fixed probe batch.
        folder: keeps each checkpoint's rows. An interrupted measurement resumes from them, and a measurement with other
            probes reuses those of common probes; rows of another batch, or another version of a probe's code, are not
            reused.
        save: where to write the table too, as Parquet.
        resamples: bootstrap resamples of the batch's sequences, for the 95 % intervals; 0 gives none.
        device: where to run the model.
        dtype: of the matrix products of all passes. Under "bfloat16" weights, sums and norms stay in float32:
            log-probabilities, losses, divergences, the probes' own computations, and probes of the weights alone.
        memory: bytes that the passes of a slice may take, or those of a single sequence where it takes more; None
            takes a sixth of a gigabyte, or as much as 256 positions do, at most a quarter of what is free.
        workers: processes of one thread, each with a checkpoint at a time. The rows are the same, in the same order.
        executor: in place of these processes, as in `sweeping.sweep`; its workers see the folder. `workers` is their
            number, for the memory and the estimate of time.
        by_hooks: run every edited pass with TransformerLens's hooks, even where lean passes give the same numbers.
        progress: show a bar.

    Raises:
        ValueError: a probe asks for a part that the batch or the model lacks, or a kind of probe comes twice; an
            unknown device or dtype; memory or workers are less than one, or resamples less than zero.
    """
    several = [series] if isinstance(series, CheckpointSeries | str | Path) else list(series)
    check(several, probes, batch, by_hooks=by_hooks, dtype=dtype)
    check_resources(device=device, dtype=dtype, memory=memory, workers=workers)
    if resamples < 0:
        raise ValueError(f"resamples are a number, 0 for no intervals, got {resamples}")
    written: list[Path] = []
    with tempfile.TemporaryDirectory() as scratch:
        for number, one in enumerate(several):
            temporary = Path(scratch, str(number))
            rows, earlier = temporary, Earlier()
            if folder is not None:
                rows, earlier = parts_folder(Path(folder), one, probes, batch, resamples, by_hooks, dtype)
            bars = progress and executor is None and workers == 1
            how: Any = {"by_hooks": by_hooks, "dtype": dtype, "progress": bars}
            plan = planned(one, probes, batch, device, memory, workers, **how)
            measurement = Measurement(one, plan, rows, resamples, device, earlier, kept=folder is not None)
            parts = measure_due(measurement, workers, executor, progress)
            written += [*parts, *across(one, parts, probes, temporary)]
        if save is not None:
            save_table(written, Path(save), probes, batch, device, dtype)
        table = Table(join(written))
        declare(table, _quantities(probes))
        return table


def planned(
    series: CheckpointSeries,
    probes: Sequence[AbstractProbe],
    batch: Batch,
    device: str,
    memory: int | None = None,
    workers: int = 1,
    **how: Any,
) -> Plan:
    """Return the settings by which each checkpoint is measured: the batch in slices that fit into the memory."""
    backward = any(list(probe.attributions(series.architecture)) for probe in probes)
    predictions = predicted(probes, series.architecture)
    budget = memory or default_memory(device, enough(batch, series.architecture, backward, predictions), workers)
    # Means over prompts of one length are of the whole batch.
    grouped = isinstance(batch, Prompts) and batch.several_lengths and not batch.summed
    slices = 1 if grouped else slices_needed(batch, series.architecture, budget, backward, predictions)
    return Plan(series.architecture, probes, batch.to(device), slices, **how)


def save_table(
    parts: Sequence[Path],
    path: Path,
    probes: Sequence[AbstractProbe],
    batch: Batch,
    device: str,
    dtype: Dtype = "float32",
) -> None:
    """Write the rows of all parts as one Parquet file, with what decided them."""
    passes = passes_of(parts)
    ways = {PASSES: passes} if passes else {}
    origin = {**provenance(batch, device, dtype), PROBES: in_words(probes), **ways}
    write(path, lambda partial: join_into(parts, partial, _quantities(probes), origin))


def _quantities(probes: Sequence[AbstractProbe]) -> dict[str, dict[str, Quantity]]:
    return {type(probe).__name__: dict(probe.quantities) for probe in probes}


def check(
    several: Sequence[CheckpointSeries],
    probes: Sequence[AbstractProbe],
    batch: Batch,
    *,
    by_hooks: bool = False,
    dtype: Dtype = "float32",
) -> None:
    """Refuse series that no table can tell apart, and probes that cannot read the models, as `measure` does."""
    for one in several:
        if not isinstance(one, CheckpointSeries):
            raise ValueError(f"a series is what `stagewise.open_series` returns, got {type(one).__name__}")
    if isinstance(probes, AbstractProbe):
        raise ValueError(f"probes are a list, as in [{probes!r}], got one alone")
    if not probes:
        raise ValueError("there is nothing to measure: give at least one probe")
    if others := [each for each in probes if not isinstance(each, AbstractProbe)]:
        raise ValueError(f"probes are instances, as in [Loss(), AttentionTo()], got {others[0]!r}")
    names = [type(probe).__name__ for probe in probes]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"give one probe of a kind, their rows share its name: {', '.join(twice)} came twice")
    if len({one.name for one in several}) < max(len(several), 1):
        raise ValueError(f"several series need a name each; got {', '.join(one.name for one in several) or 'none'}")
    for one in several:
        for probe in probes:
            if not probe.due(one.steps):
                raise ValueError(f"{type(probe).__name__}.at: the series {one.name} has no checkpoint of its steps")
            if isinstance(hooks := probe.hooks(one.architecture), str):
                raise ValueError(f"{type(probe).__name__}.hooks lists names: return [{hooks!r}], not the name alone")
        edits = [edit for probe in probes for edit in probe.edits(one.architecture)]
        attributions = [each for probe in probes for each in probe.attributions(one.architecture)]
        check_batch(batch, one.architecture, edits, f"the series {one.name}", attributions)
        if by_hooks and any(isinstance(each, AttributeEdges) for each in attributions):
            raise ValueError("by_hooks: edges between heads are computed from the weights alone: leave one of both out")


def check_resources(**resources: Unpack[Resources]) -> None:
    """Refuse a device that is not here: the errors are those of `measure`."""
    check_device(resources.get("device", "cpu"))
    check_dtype(resources.get("dtype", "float32"))
    workers, memory = resources.get("workers", 1), resources.get("memory")
    if workers < 1:
        raise ValueError(f"a measurement needs at least one worker, got {workers}")
    if memory is not None and memory < 1:
        raise ValueError(f"memory is a number of bytes, 1 for slices of one sequence, or None; got {memory}")


def across(
    series: CheckpointSeries, parts: Sequence[Path], probes: Sequence[AbstractProbe], folder: Path
) -> Iterator[Path]:
    """Write the rows that probes compute from all the checkpoints of one series together."""
    for probe in probes:
        name = type(probe).__name__
        if type(probe).across is AbstractProbe.across:
            continue
        if len(further := probe.across(rows_of(parts, name))):
            seed = {} if series.seed is None else {"seed": series.seed}
            yield write_part(folder / f"{name}.parquet", tidy([further.assign(**seed)]))
