"""Probes while a model trains: a recorder for a loop of one's own, or for the callback of a trainer."""

import contextlib
import dataclasses
import random
import sys
import tempfile
import time
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from stagewise import models
from stagewise.checkpoints import run_folder
from stagewise.checkpoints.run_folder import ANALYSIS, TABLE, write_json
from stagewise.checkpoints.series import CheckpointSeries, open_series
from stagewise.checkpoints.sources import weights_of
from stagewise.checkpoints.trainer_callbacks import save_checkpoint
from stagewise.findings import Stages
from stagewise.measurement import Measurement, analysis_record, parts_folder, provenance
from stagewise.measurement.engine import across, check, planned, save_table
from stagewise.measurement.probe_batch import batch_of_series, parted
from stagewise.probe import AbstractProbe
from stagewise.probes.default_probes import Probes, chosen_probes
from stagewise.reporting import Analysis, write_batch
from stagewise.reporting.attention_view import write_example
from stagewise.reporting.page import report
from stagewise.saved_findings import alarms_in, familiarity_in, load_stages
from stagewise.table import KEYS, VALUES, head_label
from stagewise.task import Batch
from stagewise.tasks import RepeatedTokens
from stagewise.words import alarms_in_words, count

_GROWTH = 1.05
"""Factor between steps that are recorded where no schedule is given: 48 in a factor of ten."""

_SHARE = 0.02
"""Largest part of the time that goes into writing the table anew while it grows."""

_LONG = 2.0
"""Seconds of the second measured step from which on they are said."""

_COMPILED = (
    "the model is compiled: hooks that were added afterwards do not run in it. It is recorded by its weights, in a "
    "model of their own whose hooks all run"
)


def record(
    model: Any,
    probes: Probes = None,
    schedule: Collection[int] | int | None = None,
    folder: str | Path | None = None,
    *,
    batch: Batch | None = None,
    weights: bool = False,
    resamples: int = 200,
    device: str | None = None,
) -> "Recorder":
    """Return a recorder for a training loop of one's own: `recorder(step)` measures the model before an update.

    Training stays the same to the bit: the weights are copied into a second model, which is measured. Its gradients,
    mode, hooks and random numbers are left alone. A recorder made again in the folder of a resumed training goes on.

    Args:
        model: a HookedTransformer, a native bridge, a bridge around a Hugging Face model or such a model, compiled or
            in DistributedDataParallel too.
        probes: what to measure, or a function that chooses as `default_probes` does, which None takes.
        schedule: the steps to record, as `schedules.linear` gives them, or a number: every so many steps. None records
            each step that is a twentieth above the one before.
        folder: of the run; `stagewise stages`, `report` and `watch` open it while it grows. None takes a new one,
            `runs/recording`.
        batch: the probe batch, as `Batch.from_tokens` makes one; None takes repeated random tokens.
        weights: whether to keep the weights of these steps too, as `checkpoint-N` folders that `open_series` opens.
        resamples: of the batch's sequences, for intervals.
        device: of the second model; None takes the model's own.

    Raises:
        ValueError: no such model, or the probes cannot read it; or the folder has measurements of something else.
    """
    compiled, model = models.is_compiled(model), models.bare(model)
    place = _new_folder() if folder is None else Path(folder)
    series = CheckpointSeries(place.resolve().name, models.described(model), (0,), lambda step: weights_of(model))
    task = None if batch else RepeatedTokens.for_model(series.architecture)
    probe_batch, notes = parted(batch) if batch else batch_of_series(series, task or RepeatedTokens())
    if extras := models.extras(model):
        beside = " and ".join(extras)
        warnings.warn(f"{beside} of the model: no part of what is recorded, its weights alone are", stacklevel=2)
    for note in (*notes, *([_COMPILED] if compiled else [])):
        print(note, file=sys.stderr)
    chosen = chosen_probes(probes, (), series.architecture, probe_batch, task)
    check([series], chosen, probe_batch)
    device = device or str(next(iter(model.parameters())).device)
    return Recorder(model, place, series, chosen, probe_batch, task, schedule, weights, resamples, device)


def _new_folder() -> Path:
    """Return the first of runs/recording, runs/recording-2, ... that is not there."""
    names = ("recording", *(f"recording-{number}" for number in range(2, 10**6)))
    return next(folder for name in names if not (folder := Path("runs", name)).exists())


@dataclasses.dataclass(eq=False)
class Recorder:
    """Measures a model while it trains; `record` makes one.

    Args:
        seconds: that the recording has taken so far.
    """

    model: Any
    folder: Path
    _series: CheckpointSeries
    probes: Sequence[AbstractProbe]
    batch: Batch
    _task: RepeatedTokens | None
    schedule: Collection[int] | int | None
    weights: bool
    _resamples: int
    _device: str
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.schedule, int | None):
            self.schedule = frozenset(self.schedule)
        identity = str(self.folder.resolve())
        run_folder.claim_for(self.folder, identity)
        parts, earlier = parts_folder(
            self.folder / "parts", self._series, self.probes, self.batch, self._resamples, by_hooks=False
        )
        plan = planned(self._series, self.probes, self.batch, self._device)
        self._measurement = Measurement(self._series, plan, parts, self._resamples, self._device, earlier)
        self._parts = {int(path.name.split("-")[1]): path for path in sorted(parts.glob("step-*.parquet"))}
        self._last: int | None = None
        self._saved, self._cost = 0.0, 0.0
        write_batch(self.folder, self.batch, provenance(self.batch, self._device))

    def __repr__(self) -> str:
        steps = f", steps {min(self._parts)} to {max(self._parts)}" if self._parts else ""
        return f"Recorder({str(self.folder)!r}: {count(len(self._parts), 'checkpoint')}{steps}; {self.seconds:.1f} s)"

    def due(self, step: int) -> bool:
        """Whether a step is to be recorded."""
        if not any(probe.due([step]) for probe in self.probes):
            return False
        if self.schedule is None:
            return self._last is None or step >= max(self._last + 1, _GROWTH * self._last)
        return step % self.schedule == 0 if isinstance(self.schedule, int) else step in self.schedule

    def __call__(self, step: int) -> bool:
        """Measure the model at a step, its number of updates so far, if it is due; return whether it was.

        Raises:
            ValueError: an earlier step than before, or the folder has the steps of another run.
        """
        if step == self._last or not _is_first_process() or not self.due(step):
            return False
        if self._last is not None and step < self._last:
            raise ValueError(f"steps ascend, got {step} after {self._last}: for another training make a new recorder")
        start = time.perf_counter()
        with _left_alone():
            weights = self._measurement.read(step)
            if self._last is None:
                self._go_on(step, weights.part)
            part = self._measurement.rows_of(weights)
        if self.weights:
            save_checkpoint(self.model, self.folder, step)
        if len(self._parts) == 1 and (part.seconds or 0.0) > _LONG:  # the first one builds the second model
            fewer = "fewer probes, as [Loss(), AttentionTo()], take less"
            print(f"{self.folder}: {part.seconds:.0f} s for each step that is recorded; {fewer}", file=sys.stderr)
        self._parts[step], self._last = part.path, step
        if time.perf_counter() - self._saved >= self._cost / _SHARE:
            self.save()
        self.seconds += time.perf_counter() - start
        return True

    def _go_on(self, step: int, part: Path) -> None:
        """Drop the rows of an interrupted training that this one, resumed at an earlier step, makes anew."""
        if self._parts and step <= (first := min(self._parts)) and self._parts.get(step, part) != part:
            raise ValueError(
                f"{self.folder} has the recording of another run, from step {first} on: give another folder, or delete "
                "this one"
            )
        later = [each for each in self._parts if each > step or (each == step and self._parts[each] != part)]
        if later:
            print(f"{self.folder}: steps {min(later)} to {max(later)} are recorded anew", file=sys.stderr)
        for each in later:
            self._parts.pop(each).unlink()

    @property
    def series(self) -> CheckpointSeries:
        """The checkpoints that were recorded; their weights where they are kept."""
        if self.weights:
            return open_series(self.folder, name=self._series.name)
        return dataclasses.replace(self._series, steps=tuple(sorted(self._parts)), load=_not_kept)

    def values(self) -> dict[str, float]:
        """Return the numbers of the last recorded step, as "AttentionTo/mass/L0H1/induction", to log them elsewhere."""
        rows = pd.read_parquet(self._parts[self._last]) if self._last is not None else pd.DataFrame(columns=["value"])
        rows = rows[rows["value"].notna()]
        labels = rows.drop(columns=[*VALUES, "tokens", "nested"], errors="ignore")
        return {_name(row): float(value) for row, value in zip(labels.to_dict("records"), rows["value"], strict=True)}

    def save(self) -> None:
        """Write the table of all that is recorded; `recorder(step)` does so as often as that costs little.

        Raises:
            ValueError: nothing is recorded.
        """
        if not self._parts:
            raise ValueError("nothing is recorded: call `recorder(step)` in the loop")
        start = time.perf_counter()
        steps = tuple(sorted(self._parts))
        paths, series = [self._parts[step] for step in steps], dataclasses.replace(self._series, steps=steps)
        with tempfile.TemporaryDirectory() as scratch:
            paths += across(series, paths, self.probes, Path(scratch))
            save_table(paths, self.folder / TABLE, self.probes, self.batch, self._device)
        record = analysis_record(series, str(self.folder.resolve()), self._task, self.batch)
        write_json(self.folder / ANALYSIS, {**record, "recorded": True})
        self._saved = time.perf_counter()
        self._cost = self._saved - start

    def table(self) -> pd.DataFrame:
        """Return the table of all that is recorded."""
        self.save()
        return run_folder.table_file(self.folder).read()

    def stages(self) -> Stages | None:
        """Find the stages so far; None as `load_stages`."""
        self.save()
        return load_stages(self.folder)

    def alarms(self, expected: Mapping[str, int] | None = None) -> list[str]:
        """Return what asks for a person so far, in words: see `findings.alarms.alarms_of`."""
        self.save()
        return alarms_in_words(alarms_in(self.folder, expected))

    def report(self) -> Analysis:
        """Find the stages so far and write report.html into the folder."""
        stages, series = self.stages(), self.series
        if self.weights:
            write_example(self.folder, series, stages, self._task, self.batch, self._device)
        table = run_folder.table_file(self.folder).read()
        return Analysis(series, None, table, stages, report(self.folder), familiarity_in(self.folder))


def _not_kept(step: int) -> Any:
    raise ValueError(f"the weights of step {step} are not kept: `record(..., weights=True)` keeps them")


def _is_first_process() -> bool:
    distributed = torch.distributed
    return not (distributed.is_available() and distributed.is_initialized()) or distributed.get_rank() == 0


@contextlib.contextmanager
def _left_alone() -> Iterator[None]:
    """Draw no random number of the training's, and measure outside its autocast, its default device and type."""
    states, dtype = (random.getstate(), np.random.get_state()), torch.get_default_dtype()  # noqa: NPY002 - the user's
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng())
        for kind in ("cpu", "cuda"):
            stack.enter_context(torch.autocast(kind, enabled=False))
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        torch.set_default_dtype(torch.float32)
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)
            random.setstate(states[0])
            np.random.set_state(states[1])  # noqa: NPY002


def _name(row: Mapping[Any, Any]) -> str:
    labels = {name: label for name, label in row.items() if name not in KEYS and not pd.isna(label)}
    of_head = {"layer", "head"} <= labels.keys()
    parts = [head_label(int(labels.pop("layer")), int(labels.pop("head")))] if of_head else []
    return "/".join([row["probe"], row["quantity"], *parts, *map(str, labels.values())])
