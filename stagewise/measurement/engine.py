"""The shared-pass engine: every probe on every checkpoint, same batch, same code, only the weights vary."""

import inspect
import tempfile
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tqdm.auto import tqdm

from stagewise import models
from stagewise.checkpoints.digest import short_digest
from stagewise.checkpoints.run_folder import write, write_json
from stagewise.checkpoints.series import CheckpointSeries, State
from stagewise.measurement.checkpoint import Checkpoint, Plan, readings
from stagewise.measurement.parts import join, join_into, rows_of
from stagewise.measurement.passes import default_memory, slices
from stagewise.measurement.printed_table import Table
from stagewise.measurement.rows import bootstrap_weights, columns
from stagewise.models import Model
from stagewise.probe import AbstractProbe
from stagewise.table import Columns, declare, tidy, tidy_columns
from stagewise.task import Batch


def measure(
    series: CheckpointSeries | Sequence[CheckpointSeries],
    probes: Sequence[AbstractProbe],
    batch: Batch,
    *,
    folder: str | Path | None = None,
    save: str | Path | None = None,
    resamples: int = 200,
    device: str = "cpu",
    memory: int | None = None,
    by_hooks: bool = False,
    progress: bool = True,
) -> pd.DataFrame:
    """Run the probes on every checkpoint of the series and return one tidy table.

    A checkpoint costs one clean pass, and for each different edit that any probe asks for what it changes: see
    `models.lean`. The batch goes through in slices that fit into a budget of memory, so that nothing is left out for
    the size of a model. Every probe reads the same numbers as if it ran alone. Rows go to disk checkpoint by
    checkpoint, so that memory does not grow with their number; a large table is mapped from a file, see `parts.join`.

    Args:
        series: the checkpoints; one is in memory at a time. Of several series, as of several seeds, one table.
        probes: what to measure.
        batch: the fixed probe batch.
        folder: where to keep each checkpoint's rows, so that an interrupted measurement resumes where it stopped;
            rows of another batch, of other probes, or of another version of their code are not reused.
        save: where to write the table too, as Parquet.
        resamples: bootstrap resamples of the batch's sequences, for the 95 % intervals.
        device: where to run the model.
        memory: bytes that the passes of a slice may take, or those of a single sequence where it takes more; None
            takes a quarter of what is free, half a gigabyte at most.
        by_hooks: run every edited pass with TransformerLens's hooks, many times slower: what the lean passes, which
            are used where they give the model's own predictions, are compared with.
        progress: show a bar.

    Raises:
        ValueError: a probe asks for what the batch or the model does not have, or a kind of probe comes twice.
    """
    if not probes:
        raise ValueError("there is nothing to measure: give at least one probe")
    names = [type(probe).__name__ for probe in probes]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"give one probe of a kind, their rows share its name: {', '.join(twice)} came twice")
    if empty := (~batch.scored.any(1)).nonzero()[:, 0].tolist():
        raise ValueError(f"sequences {', '.join(map(str, empty))} of the batch have no scored position: leave them out")
    several = [series] if isinstance(series, CheckpointSeries) else list(series)
    if len({one.name for one in several}) < max(len(several), 1):
        raise ValueError(f"several series need a name each; got {', '.join(one.name for one in several) or 'none'}")
    for one in several:
        _check_fit(batch, one)
    memory = default_memory(device) if memory is None else memory
    written: list[Path] = []
    with tempfile.TemporaryDirectory() as scratch:
        for number, one in enumerate(several):
            temporary = Path(scratch, str(number))
            rows_folder = temporary if folder is None else _parts(Path(folder), one, probes, batch, resamples)
            parts = _measure_all(one, probes, batch, rows_folder, resamples, device, memory, by_hooks, progress)
            written += [*parts, *_across(one, parts, probes, temporary)]
        quantities = {type(probe).__name__: dict(probe.quantities) for probe in probes}
        if save is not None:
            write(Path(save), lambda partial: join_into(written, partial, quantities))
        table = Table(join(written))
        declare(table, quantities)
        return table


def _check_fit(batch: Batch, series: CheckpointSeries) -> None:
    """Refuse a batch that the models cannot read."""
    config = series.architecture.config
    if not batch.tokens.is_floating_point() and (largest := int(batch.tokens.max())) >= config["d_vocab"]:
        raise ValueError(
            f"the batch holds token {largest}, and the models of {series.name} have {config['d_vocab']} tokens, "
            "counted from 0: take the tokenizer that they were trained with, or a task of their size"
        )
    if (length := batch.tokens.shape[1]) > config["n_ctx"]:
        raise ValueError(
            f"the batch has {length} positions, and the models of {series.name} have {config['n_ctx']}: shorten it"
        )


def _measure_all(
    series: CheckpointSeries,
    probes: Sequence[AbstractProbe],
    batch: Batch,
    folder: Path,
    resamples: int,
    device: str,
    memory: int,
    by_hooks: bool,
    progress: bool,
) -> list[Path]:
    """Measure the checkpoints without rows so far; return the files of all rows, in the order of the steps."""
    model = models.build(series.architecture, device=device)
    plan = Plan(series.architecture, probes, slices(batch.to(device), series.architecture, memory), by_hooks)
    bootstrap = bootstrap_weights(len(batch), resamples)
    written = []
    for step in tqdm(series.steps, disable=not progress, desc=f"{series.name}: probes", unit="checkpoint"):
        state = series.load(step)
        part = folder / f"step-{step:08d}-{short_digest(state)}.parquet"
        if not part.exists():
            _write_part(part, _measure_one(model, step, state, series, plan, bootstrap))
        written.append(part)
    return written


def _across(
    series: CheckpointSeries, parts: Sequence[Path], probes: Sequence[AbstractProbe], folder: Path
) -> Iterator[Path]:
    """Write what probes compute from all the checkpoints of one series together."""
    for probe in probes:
        name = type(probe).__name__
        if type(probe).across is AbstractProbe.across:
            continue
        if len(further := probe.across(rows_of(parts, name))):
            seed = {} if series.seed is None else {"seed": series.seed}
            yield _write_part(folder / f"{name}.parquet", tidy([further.assign(**seed)]))


def _write_part(path: Path, frame: pd.DataFrame) -> Path:
    return write(path, lambda partial: frame.to_parquet(partial, index=False))


def _measure_one(
    model: Model,
    step: int,
    state: State,
    series: CheckpointSeries,
    plan: Plan,
    bootstrap: np.ndarray,
) -> pd.DataFrame:
    try:
        models.load(model, state)
    except ValueError as reason:
        raise ValueError(
            f"step {step} of {series.name!r}: {reason}. `stagewise audit` lists what differs; `steps=` leaves it out"
        ) from reason
    known = {"run": series.name, "step": step, "tokens": series.tokens.get(step), "seed": series.seed}
    labels: dict[str, Any] = {name: label for name, label in known.items() if label is not None}
    blocks: list[Columns] = []
    found = readings(plan, Checkpoint(model, step, state))
    for probe in plan.probes:
        for reading in found[type(probe).__name__]:
            block = columns(reading, bootstrap, probe.quantities.get(reading.quantity))
            nested = _of_references(block, plan.parts[0])
            blocks.append({**block, **nested, **labels, "probe": type(probe).__name__})
    return tidy_columns(blocks)


def _of_references(block: Columns, batch: Batch) -> Columns:
    """Return `nested`, which partial solution each reference is (0 for none), and the `context` it was trained on."""
    if "reference" not in block:
        return {}
    order = {name: index for index, name in enumerate(batch.nested_references, start=1)}
    nested = [order.get(name, 0) for name in block["reference"]]
    contexts = [batch.contexts.get(name) for name in block["reference"]]
    return {"nested": nested, "context": contexts} if batch.contexts else {"nested": nested}


def _parts(
    folder: Path, series: CheckpointSeries, probes: Sequence[AbstractProbe], batch: Batch, resamples: int
) -> Path:
    """Return the folder of this measurement, named by the hash of everything that determines it but the weights."""
    code = [version("stagewise"), *map(_source, probes)]
    order = batch.nested_references  # equal batches may order their references differently
    parts = folder / short_digest([series.name, series.architecture, list(probes), batch, order, resamples, code])
    settings = {
        "run": series.name,
        "probes": [repr(probe) for probe in probes],
        "resamples": resamples,
        "stagewise": version("stagewise"),
    }
    write_json(parts / "settings.json", settings)
    return parts


def _source(probe: AbstractProbe) -> str:
    """Return the code of a probe's module: another version of it measures anew. Empty if it is in no file."""
    module = inspect.getmodule(type(probe))
    try:
        return inspect.getsource(module or type(probe))
    except (OSError, TypeError):
        return ""
