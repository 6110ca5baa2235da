"""The checkpoints of a series, one after the other or several at once: each one's rows go into a file of its own."""

import bisect
import concurrent.futures
import contextlib
import dataclasses
import itertools
import json
import pickle
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm.auto import tqdm

from stagewise import models
from stagewise.checkpoints import PROVENANCE, not_finite, short_digest
from stagewise.checkpoints.run_folder import write
from stagewise.checkpoints.series import CheckpointSeries, State
from stagewise.measurement._checkpoint import HOOKS, Checkpoint, Plan, readings
from stagewise.measurement._earlier import OF_PROBES, PASSES, Earlier, Rows, earlier_rows, notes_of, together
from stagewise.measurement._passes import asks_for_passes
from stagewise.measurement._rows import bootstrap_weights, checkpoint_labels, columns, tidy_columns, unmeasured
from stagewise.models import Model
from stagewise.models.process import threads
from stagewise.probe import AbstractProbe, Reading
from stagewise.processes import cores, map_elsewhere, worker_pool
from stagewise.table import Columns, in_order, tidy

_WORTH_SAYING = 60.0
"""Seconds of work left from which on it is said."""

_SLOWER = (
    "edited passes run with TransformerLens's hooks, which takes several times as long: those of the library's own do "
    "not give this model's numbers"
)

_WIDE = 512
"""Width of a model from which on several threads share its products, where processes cannot share its checkpoints."""


def forecast(seconds: float, left: int, workers: int) -> str | None:
    """Return in a line how long the checkpoints left take, by the seconds of one; None for less than a minute."""
    if (total := left * seconds / workers) < _WORTH_SAYING:
        return None
    checkpoints = "1 checkpoint" if left == 1 else f"{left} checkpoints"
    return f"the other {checkpoints} take about {in_words(total)}; `--without PROBE` leaves a probe out"


def in_words(seconds: int | float) -> str:
    """Return a time in minutes, or in hours and minutes."""
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


class _Part(NamedTuple):
    """The file of a checkpoint's rows, the way of its passes, its seconds; None where the rows were there already."""

    path: Path
    seconds: float | None
    passes: str = ""


class _Weights(NamedTuple):
    """A checkpoint's weights, those with nan or infinity, the file of its rows, and how long they took to read."""

    step: int
    state: State
    not_finite: tuple[str, ...]
    part: Path
    seconds: float


@dataclasses.dataclass(frozen=True, eq=False)
class Measurement:
    """The measurement of each checkpoint of a series, its rows' place, kept or not, and files of those `whole`."""

    series: CheckpointSeries
    plan: Plan
    folder: Path
    resamples: int
    device: str
    earlier: Earlier
    whole: Mapping[int, Path] = dataclasses.field(default_factory=dict)
    kept: bool = True
    _models: list[Model] = dataclasses.field(default_factory=list, init=False, repr=False)

    @cached_property
    def _bootstrap(self) -> np.ndarray:
        return bootstrap_weights(len(self.plan.batch), self.resamples)

    def read(self, step: int) -> _Weights:
        """Read a checkpoint's weights, all of them, so that they are in memory once they are measured."""
        start = time.perf_counter()
        state = self.series.load(step)
        of_weights = f"-{short_digest(state)}" if self.kept else ""  # a later measurement may have others at this step
        part = self.folder / f"step-{step:08d}{of_weights}.parquet"
        wrong = () if part.exists() else not_finite(state)
        return _Weights(step, state, wrong, part, time.perf_counter() - start)

    def rows_of(self, weights: _Weights) -> _Part:
        """Measure a checkpoint, but for the rows that are there already."""
        if weights.part.exists():
            return _Part(weights.part, None)
        due = [probe for probe in self.plan.probes if probe.due([weights.step])]
        names = [type(probe).__name__ for probe in due]
        taken = earlier_rows(self.earlier, weights.part.name)
        known = {name for rows in taken for name in rows.of}
        if known == set(names):
            rows, seconds = together(names, taken), None
        else:
            model = self._model(weights)  # built once, which is no checkpoint's cost
            start = time.perf_counter()
            missing = [probe for probe in due if type(probe).__name__ not in known]
            measured = self._measured(dataclasses.replace(self.plan, probes=missing), weights, model)
            rows = together(names, [*taken, measured]) if taken else measured
            seconds = weights.seconds + time.perf_counter() - start
        write_part(weights.part, rows.frame, {PASSES: rows.passes, OF_PROBES: rows.of})
        return _Part(weights.part, seconds, rows.passes)

    def _model(self, weights: _Weights) -> Model:
        """Return the model with a checkpoint's weights: one for all checkpoints."""
        try:
            if self._models:
                models.load(self._models[0], weights.state)
            else:
                self._models.append(models.holding(self.series.architecture, weights.state, self.device))
        except ValueError as reason:
            fix = "`stagewise audit` lists what differs from checkpoint to checkpoint; `steps=` leaves one out, "
            fix += "`architecture=` gives another model"
            raise ValueError(f"step {weights.step} of {self.series.name!r}: {reason}. {fix}") from reason
        return self._models[0]

    def _measured(self, plan: Plan, weights: _Weights, model: Model) -> Rows:
        """Return the rows of some probes at a checkpoint."""
        step, state = weights.step, weights.state
        labels = checkpoint_labels(self.series, step)
        if weights.not_finite:
            marker = unmeasured(weights.not_finite, f"step {step} of {self.series.name!r}")
            return Rows(tidy([marker.assign(**labels)]), {})
        names, whole = [type(probe).__name__ for probe in plan.probes], sorted(self.whole)
        after = bisect.bisect(whole, step)
        around = [self.whole[each] for each in whole[after - 1 : after + 1]]
        read = readings(plan, Checkpoint(model, step, state, {name: notes_of(around, name) for name in names}))
        blocks, of = list[Columns](), dict[str, dict[str, Any]]()
        for name, probe in zip(names, plan.probes, strict=True):
            means = dict[Any, Any]()
            own = [{**self._block(probe, each, means), **labels} for each in read.of[name]]
            way = read.passes if asks_for_passes(probe, plan.architecture) else ""
            of[name] = {"columns": in_order(itertools.chain(*own)), "passes": way, "note": read.notes[name]}
            blocks += own
        return Rows(tidy_columns(blocks), of)

    def _block(self, probe: AbstractProbe, reading: Reading, means: dict[Any, Any]) -> Columns:
        """Return the rows of a reading.

        Those of references have `nested`, which partial solution each is (0 for none), and the `context` it was
        trained on.
        """
        quantity, batch = probe.quantities.get(reading.quantity), self.plan.batch
        rows = columns(reading, self._bootstrap, quantity, means)
        block = {**rows, "probe": type(probe).__name__}
        if (names := block.get("reference")) is not None:
            order = {name: index for index, name in enumerate(batch.nested_references, start=1)}
            block["nested"] = [order.get(name, 0) for name in names]
            block |= {"context": [batch.contexts.get(name) for name in names]} if batch.contexts else {}
        return block

    def __getstate__(self) -> dict[str, Any]:
        # Each process builds the model, and draws the resamples, anew.
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


def write_part(path: Path, frame: pd.DataFrame, origin: Mapping[str, object] = MappingProxyType({})) -> Path:
    """Write rows as Parquet, with where they come from in the file's metadata."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    table = table.replace_schema_metadata({**table.schema.metadata, PROVENANCE: json.dumps(dict(origin))})
    return write(path, lambda partial: pq.write_table(table, partial))


def measure_due(
    measurement: Measurement, workers: int, executor: concurrent.futures.Executor | None, progress: bool
) -> list[Path]:
    """Measure the checkpoints that probes are due at, before the others those that all of them measure whole."""
    series, probes = measurement.series, measurement.plan.probes
    due = [probe.due(series.steps) for probe in probes]
    others = {step for probe, own in zip(probes, due, strict=True) for step in {*own} - {*probe.whole(own)}}
    every, whole = sorted({*itertools.chain(*due)}), dict[int, Path]()
    for steps in ([step for step in every if step not in others], every) if others else (every,):
        some = dataclasses.replace(series, steps=tuple(steps))
        parts = measure_steps(dataclasses.replace(measurement, series=some, whole=whole), workers, executor, progress)
        whole = dict(zip(steps, parts, strict=True))
    return [*whole.values()]


def measure_steps(
    measurement: Measurement, workers: int, executor: concurrent.futures.Executor | None, progress: bool
) -> list[Path]:
    """Measure the checkpoints without rows so far, say how long the others take, and return all files by step."""
    series, plan, said = measurement.series, measurement.plan, not progress or (executor is not None and workers == 1)
    steps, workers, paths = series.steps, min(workers, len(series.steps)), list[Path]()
    bar = tqdm(total=len(steps), disable=not progress, desc=f"{series.name}: probes", unit="checkpoint")
    with bar, _parts(measurement, workers, executor) as parts:
        for part in parts:
            paths.append(part.path)
            bar.update()
            if part.seconds is None or said:
                continue
            said, left = True, len(steps) - len(paths)
            if part.passes == HOOKS and not plan.by_hooks:
                bar.write(f"{series.name}: {_SLOWER}", file=sys.stderr)
            if line := forecast(part.seconds, left, workers):
                bar.write(f"{series.name}: {line}", file=sys.stderr)
    return paths


@contextlib.contextmanager
def _parts(
    measurement: Measurement, workers: int, executor: concurrent.futures.Executor | None
) -> Iterator[Iterator[_Part]]:
    steps = measurement.series.steps
    if executor is None and workers == 1:
        wide = int(measurement.series.architecture.config["d_model"]) >= _WIDE
        number = cores() if wide and len(steps) < cores() else 1
        with threads(number), contextlib.closing(_read_ahead(measurement)) as weights:
            yield map(measurement.rows_of, weights)
        return
    with contextlib.ExitStack() as stack:
        pool = executor or stack.enter_context(worker_pool(workers))
        pickled = _pickled(measurement)
        handed: bytes | Path = pickled
        if isinstance(pool, concurrent.futures.ProcessPoolExecutor | concurrent.futures.ThreadPoolExecutor):
            # Once for all steps, where only this user reads and writes; workers elsewhere see no such place.
            handed = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stagewise-")), "measurement")
            handed.write_bytes(pickled)
        with contextlib.closing(map_elsewhere(pool, partial(_measure_in_worker, handed), steps)) as parts:
            yield parts


def _read_ahead(measurement: Measurement) -> Generator[_Weights]:
    """Yield each checkpoint's weights; from files and hubs the next one's are read while these are measured."""
    steps = measurement.series.steps
    if measurement.series.source is None:  # made by a function, which may not run beside what measures
        yield from map(measurement.read, steps)
        return
    with concurrent.futures.ThreadPoolExecutor(1) as reader:
        ahead = reader.submit(measurement.read, steps[0])
        for following in steps[1:]:
            weights = ahead.result()
            ahead = reader.submit(measurement.read, following)
            yield weights
        yield ahead.result()


def _pickled(measurement: Measurement) -> bytes:
    try:
        pickled: bytes = cloudpickle.dumps(measurement)  # functions in functions have no name for plain pickle
        return pickled
    except (pickle.PicklingError, AttributeError, TypeError) as reason:
        raise ValueError(
            f"the checkpoints of {measurement.series.name!r}, or a probe, cannot be handed to another process "
            f"({reason}): save the checkpoints and open their folder, or measure with workers=1"
        ) from reason


_HERE = threading.local()
"""The measurement that a thread was handed, opened once: a model holds one checkpoint at a time."""


def _measure_in_worker(handed: bytes | Path, step: int) -> _Part:
    if getattr(_HERE, "handed", None) != handed:
        pickled = handed if isinstance(handed, bytes) else handed.read_bytes()
        _HERE.handed, _HERE.measurement = handed, pickle.loads(pickled)
    measurement: Measurement = _HERE.measurement
    return measurement.rows_of(measurement.read(step))
