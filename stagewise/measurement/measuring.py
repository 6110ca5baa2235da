"""The checkpoints of a series, one after the other or several at once: each one's rows go into a file of its own."""

import concurrent.futures
import contextlib
import dataclasses
import functools
import pickle
import tempfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pandas as pd
from tqdm.auto import tqdm

from stagewise import models
from stagewise.checkpoints.digest import short_digest
from stagewise.checkpoints.run_folder import write
from stagewise.checkpoints.series import CheckpointSeries, State
from stagewise.measurement.checkpoint import Checkpoint, Plan, readings
from stagewise.measurement.inputs import unmeasured
from stagewise.measurement.rows import bootstrap_weights, columns, tidy_columns
from stagewise.models import Model
from stagewise.sweeping import worker_pool
from stagewise.table import Columns, tidy
from stagewise.task import Batch


@dataclasses.dataclass(frozen=True, eq=False)
class Measurement:
    """What is measured of each checkpoint of a series, and where its rows go.

    Args:
        series: the checkpoints.
        plan: probes, and the slices of the batch.
        folder: where each checkpoint's rows go.
        resamples: bootstrap resamples of the sequences.
        device: where to run the model.
    """

    series: CheckpointSeries
    plan: Plan
    folder: Path
    resamples: int
    device: str

    @cached_property
    def _model(self) -> Model:
        return models.build(self.series.architecture, device=self.device)

    @cached_property
    def _bootstrap(self) -> np.ndarray:
        return bootstrap_weights(sum(map(len, self.plan.parts)), self.resamples)

    def step(self, step: int) -> Path:
        """Measure a checkpoint, unless its rows are there already; return their file."""
        state = self.series.load(step)
        part = self.folder / f"step-{step:08d}-{short_digest(state)}.parquet"
        return part if part.exists() else write_part(part, self._rows(step, state))

    def _rows(self, step: int, state: State) -> pd.DataFrame:
        series, plan = self.series, self.plan
        try:
            models.load(self._model, state)
        except ValueError as reason:
            fix = "`stagewise audit` lists what differs; `steps=` leaves it out"
            raise ValueError(f"step {step} of {series.name!r}: {reason}. {fix}") from reason
        marker = unmeasured(state, f"step {step} of {series.name!r}")
        known = {"run": series.name, "step": step, "tokens": series.tokens.get(step), "seed": series.seed}
        labels: dict[str, Any] = {name: label for name, label in known.items() if label is not None}
        if marker is not None:
            return tidy([marker.assign(**labels)])
        blocks: list[Columns] = []
        found = readings(plan, Checkpoint(self._model, step, state)).of
        for probe in plan.probes:
            for reading in found[type(probe).__name__]:
                block = columns(reading, self._bootstrap, probe.quantities.get(reading.quantity))
                nested = _of_references(block, plan.parts[0])
                blocks.append({**block, **nested, **labels, "probe": type(probe).__name__})
        return tidy_columns(blocks)

    def __getstate__(self) -> dict[str, Any]:
        # Each process builds the model, and draws the resamples, anew.
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


def write_part(path: Path, frame: pd.DataFrame) -> Path:
    """Write rows as Parquet."""
    return write(path, lambda partial: frame.to_parquet(partial, index=False))


def _of_references(block: Columns, batch: Batch) -> Columns:
    """Return `nested`, which partial solution each reference is (0 for none), and the `context` it was trained on."""
    if "reference" not in block:
        return {}
    order = {name: index for index, name in enumerate(batch.nested_references, start=1)}
    nested = [order.get(name, 0) for name in block["reference"]]
    contexts = [batch.contexts.get(name) for name in block["reference"]]
    return {"nested": nested, "context": contexts} if batch.contexts else {"nested": nested}


def measure_steps(
    measurement: Measurement, workers: int, executor: concurrent.futures.Executor | None, progress: bool
) -> list[Path]:
    """Measure the checkpoints without rows so far; return the files of all rows, in the order of the steps.

    Raises:
        ValueError: a series that other processes cannot open, since reading it needs what only this process has.
    """
    steps, name = measurement.series.steps, measurement.series.name
    with _parts(measurement, min(workers, len(steps)), executor) as parts:
        return list(tqdm(parts, total=len(steps), disable=not progress, desc=f"{name}: probes", unit="checkpoint"))


@contextlib.contextmanager
def _parts(
    measurement: Measurement, workers: int, executor: concurrent.futures.Executor | None
) -> Iterator[Iterator[Path]]:
    steps = measurement.series.steps
    if executor is None and workers == 1:
        yield map(measurement.step, steps)
        return
    with contextlib.ExitStack() as stack:
        pool = executor or stack.enter_context(worker_pool(workers))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=_existing(measurement.folder))))
        (folder / "measurement.pickle").write_bytes(_pickled(measurement))
        futures = [pool.submit(_measure_in_worker, folder / "measurement.pickle", step) for step in steps]
        try:
            yield (future.result() for future in futures)
        finally:
            for future in futures:
                future.cancel()


def _existing(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _pickled(measurement: Measurement) -> bytes:
    try:
        pickled: bytes = cloudpickle.dumps(
            measurement
        )  # by value where plain pickle has no name: functions in functions
        return pickled
    except (pickle.PicklingError, AttributeError, TypeError) as reason:
        raise ValueError(
            f"the checkpoints of {measurement.series.name!r}, or a probe, cannot be handed to another process "
            f"({reason}): save the checkpoints and open their folder, or measure with workers=1"
        ) from reason


def _measure_in_worker(path: Path, step: int) -> Path:
    return _opened(path).step(step)


@functools.lru_cache(maxsize=1)
def _opened(path: Path) -> Measurement:
    """Read what this process measures, once."""
    measurement: Measurement = pickle.loads(path.read_bytes())
    return measurement
