"""The local learning coefficient of checkpoints, of all weights and of single heads: settings, cost, kept values."""

import concurrent.futures
import contextlib
import dataclasses
import itertools
import math
import time
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from tqdm.auto import tqdm

from stagewise import models
from stagewise.checkpoints import read_json, short_digest
from stagewise.checkpoints.run_folder import measuring, write_json
from stagewise.checkpoints.series import CheckpointSeries, State
from stagewise.measurement import _langevin as langevin
from stagewise.measurement._langevin import DEFAULT, Coefficient, Loss, Sampler
from stagewise.measurement._measuring import in_words
from stagewise.measurement._rows import check_batch, check_series, checkpoint_labels, finite_states, measured_table
from stagewise.models import Model, check_device, of_head, trained, training_pass
from stagewise.processes import map_elsewhere
from stagewise.table import Columns, Head, Quantity, head_label
from stagewise.task import Batch

_TRIED = 30
"""Updates of the first and of the last checkpoint that are tried for the time that one takes, or as many as fit into
`_SECONDS` each: most chains that diverge do it there."""

_SECONDS = 5.0

_MINUTE = 60.0
"""Seconds from which on a time is said in minutes."""

_LABEL = "local learning coefficient"

_QUANTITIES = {
    "LearningCoefficient": {
        "whole_model": Quantity(_LABEL),
        "of_head": Quantity(f"{_LABEL} of the head's weights"),
        "drift": Quantity(f"change of the {_LABEL} within the chains"),
        "drift_of_head": Quantity(f"change of the {_LABEL} of the head's weights within the chains"),
    }
}
"""Quantities of `measure_learning_coefficients`, by the name that stands in the column `probe`."""


class _Cost(NamedTuple):
    """The cost of a sampling: checkpoints, coefficients that are missing, updates, and seconds of an update."""

    checkpoints: int
    coefficients: int
    updates: int
    seconds: float

    def __str__(self) -> str:
        if not self.coefficients:
            return "all coefficients are there already"
        left = self.updates * self.seconds
        time_left = "less than a minute" if left < _MINUTE else f"about {in_words(left)}"
        return (
            f"{self.coefficients} coefficients of {self.checkpoints} checkpoints are sampled in {self.updates} "
            f"updates: {time_left}"
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Sampling:
    """The sampling of each checkpoint of a series, and the place of its results."""

    series: CheckpointSeries
    batch: Batch
    sampler: Sampler
    heads: bool = False
    folder: Path | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        check_series(self.series)
        langevin.check_devinterp()
        check_device(self.device)
        check_batch(self.batch, self.series.architecture, (), f"the series {self.series.name}")
        for layer, head in filter(None, self.parts[1:2]):
            of_head(self._model, layer, head)  # raises where heads are not told apart, before anything is sampled

    @property
    def parts(self) -> list[Head | None]:
        """The whole model, None, and where heads are sampled each layer and head."""
        made = self.series.architecture
        heads = itertools.product(range(made.n_layers), range(made.n_heads)) if self.heads else ()
        return [None, *heads]

    @property
    def updates(self) -> int:
        """Updates of a coefficient."""
        return self.sampler.chains * (self.sampler.burn_in + self.sampler.draws)

    def cost(self) -> _Cost:
        """Return the remaining cost, after a few updates of two checkpoints, by which an update is timed."""
        known = [] if self._kept is None else [path.name.rpartition("-")[0] for path in self._kept.glob("*.json")]
        missing = [step for step in self.series.steps for part in self.parts if _stem(step, part) not in known]
        seconds = self._seconds() if missing else 0.0
        return _Cost(len(set(missing)), len(missing), len(missing) * self.updates, seconds)

    @property
    def relaxation(self) -> float:
        """Steps in which a chain comes to 1 / e of where it stays, in a direction in which the loss is flat."""
        pull = self.sampler.step_size * self.sampler.localization
        return 2 * self.sampler.temperature_of(self._samples) / pull if pull else math.inf

    def advice(self) -> str:
        """Say that the draws begin before chains come to rest in flat directions, and what to do; else nothing."""
        rest, burn_in = self.relaxation, self.sampler.burn_in
        if rest <= burn_in or math.isinf(rest):
            return ""
        times = math.ceil(2 * rest / max(burn_in, 1))
        return (
            f"in flat directions a chain comes to rest in about {rest:.0f} steps, and the draws begin after {burn_in}: "
            f"take a burn-in of {2 * rest:.0f}, or a step size (where chains do not diverge) or a localization "
            f"{times} times as large"
        )

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder of what is kept, rid of what is damaged: that is sampled again."""
        with contextlib.nullcontext() if self._kept is None else measuring(self._kept):
            yield

    def all_coefficients(
        self, bar: "tqdm[Any]", executor: concurrent.futures.Executor | None
    ) -> Iterator[tuple[int, list[tuple[Head | None, Coefficient]]]]:
        """Yield the coefficients of each checkpoint with finite weights, by step; sampled here without an executor."""
        if executor is None:
            for step, state in finite_states(self.series, self.series):
                yield step, list(self.coefficients(step, state, bar))
            return
        there = map_elsewhere(executor, self._sample_step, self.series.steps)
        for step, found in zip(self.series.steps, there, strict=True):
            bar.update(len(self.parts) * self.updates)
            if found:
                yield step, found

    def _sample_step(self, step: int) -> list[tuple[Head | None, Coefficient]]:
        """Return the coefficients of a checkpoint; none where its weights are not finite."""
        with tqdm(disable=True) as bar:
            states = finite_states(self.series, [(step, self.series.load(step))])
            return [each for at, state in states for each in self.coefficients(at, state, bar)]

    def coefficients(self, step: int, state: State, bar: "tqdm[Any]") -> Iterator[tuple[Head | None, Coefficient]]:
        """Yield the coefficient of each part of a checkpoint, from the folder where it is there already."""
        models.load(self._model, state)
        digest = "" if self._kept is None else short_digest(state)
        for part in self.parts:
            path = None if self._kept is None else self._kept / f"{_stem(step, part)}-{digest}.json"
            if path is not None and path.exists():
                bar.update(self.updates)
                yield part, _read(path)
                continue
            found = self._sampled(step, part, bar)
            if path is not None:
                write_json(path, {"chains": found.chains.tolist(), "drift": found.drift})
            yield part, found

    def _sampled(self, step: int, part: Head | None, bar: "tqdm[Any]") -> Coefficient:
        named, masks = self._of(part)

        def loss(draw: torch.Generator | None) -> Tensor:
            if torch.is_grad_enabled():  # and not the checkpoint's own loss, which comes first
                bar.update()
            return self._loss(draw)

        with self._named(step, part):
            return langevin.local_learning_coefficient(loss, named, self._samples, self.sampler, masks)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the model behind: each process builds its own."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @contextlib.contextmanager
    def _named(self, step: int, part: Head | None) -> Iterator[None]:
        """Say in an error of a chain where it started."""
        try:
            yield
        except ValueError as reason:
            raise ValueError(f"step {step} of {self.series.name!r}, {_name(part)}: {reason}") from reason

    def _of(self, part: Head | None) -> tuple[list[Tensor], list[Tensor] | None]:
        """Return the parameters of a part that training changes, and masks of its numbers in them."""
        named = trained(self._model)
        if part is None:
            return list(named.values()), None
        masks = {name: mask for name, mask in of_head(self._model, *part).items() if name in named}
        return [named[name] for name in masks], [mask.to(self.device) for mask in masks.values()]

    def _seconds(self) -> float:
        """Return how long an update takes: of the whole model at the first and at the last checkpoint."""
        trial = dataclasses.replace(self.sampler, burn_in=0, draws=_TRIED)
        parameters, _ = self._of(None)
        taken = list[float]()
        for step in {self.series.steps[0], self.series.steps[-1]}:
            models.load(self._model, self.series.load(step))
            losses, times = list[float](), [time.perf_counter()]
            with langevin.restored(parameters):
                for loss in langevin.chain(self._loss, parameters, None, trial, self._samples, 0):
                    losses.append(loss)
                    times.append(time.perf_counter())
                    if times[-1] - times[0] > _SECONDS:
                        break
            excess = self.sampler.temperature_of(self._samples) * (np.array(losses) - losses[0])
            with self._named(step, None):
                langevin.check_stable(excess, langevin.counted(parameters), self.sampler)
            taken += np.diff(times).tolist()
        return float(np.median(taken))

    @cached_property
    def _samples(self) -> int:
        return int(self.batch.scored.sum())

    @cached_property
    def _model(self) -> Model:
        return models.unloaded(self.series.architecture, device=self.device)

    @cached_property
    def _loss(self) -> Loss:
        batch = self.batch.to(self.device)
        size = min(self.sampler.sequences or len(batch), len(batch))
        few = batch[:8]  # on which the fused pass of training is tried
        return langevin.loss_of(training_pass(self._model, few.tokens, few.scored, size).predict, batch, size)

    @cached_property
    def _kept(self) -> Path | None:
        """The folder of this sampling, named by the hash of everything that determines it but the weights."""
        if self.folder is None:
            return None
        code = [version("stagewise"), version("devinterp"), langevin.VERSION, self.device]
        return self.folder / short_digest([self.series.name, self.series.architecture, self.batch, self.sampler, code])


def _read(path: Path) -> Coefficient:
    found = read_json(path, "delete it, and the same call samples it again")
    return Coefficient(np.array(found["chains"]), found["drift"])


def _stem(step: int, part: Head | None) -> str:
    return f"step-{step:08d}-{'whole' if part is None else head_label(*part)}"


def _name(part: Head | None) -> str:
    return "the whole model" if part is None else head_label(*part)


def measure_learning_coefficients(
    series: CheckpointSeries,
    batch: Batch,
    sampler: Sampler = DEFAULT,
    *,
    heads: bool = False,
    folder: str | Path | None = None,
    device: str = "cpu",
    progress: bool = True,
    executor: concurrent.futures.Executor | None = None,
) -> pd.DataFrame:
    """Estimate the local learning coefficient of every checkpoint, as a tidy table.

    `whole_model`, and with `heads` also `of_head` by layer and head: of the loss on the batch's scored predictions, the
    samples, when all trained weights are sampled, or one head's with all others as they are. Intervals are over chains.
    `drift` and `drift_of_head` say how far the chains still move: see `Coefficient`. A checkpoint takes chains *
    (burn_in + draws) steps of training, and as many for each head: choose checkpoints, as by `series[::8]`. Compare
    only coefficients that were sampled alike: the height depends on the sampler and on the batch.

    Args:
        series: the checkpoints.
        batch: the fixed probe batch; more of it stands better for the loss in general.
        sampler: how weights are sampled.
        heads: whether to sample each head by itself too.
        folder: where to keep each coefficient, from which an interrupted sampling resumes; those of another batch or
            sampler are not reused.
        device: where to run the model.
        progress: show a bar of the updates.
        executor: whose processes sample a checkpoint each, and see the folder; None samples here. The numbers are the
            same.

    Raises:
        ImportError: devinterp is not installed.
        ValueError: a chain diverged, or heads of a bridge around a Hugging Face model.

    Source: `local_learning_coefficient`.
    """
    sampling = Sampling(series, batch, sampler, heads, None if folder is None else Path(folder), device)
    blocks = list[Columns]()
    total, words = len(series) * len(sampling.parts) * sampling.updates, f"{series.name}: sampled"
    with sampling.held(), tqdm(total=total, disable=not progress, desc=words, unit="update") as bar:
        for step, coefficients in sampling.all_coefficients(bar, executor):
            labels = {**checkpoint_labels(series, step), "probe": "LearningCoefficient"}
            for part, found in coefficients:
                of = {"layer": part[0], "head": part[1]} if part else {}
                names = ("of_head", "drift_of_head") if part else ("whole_model", "drift")
                blocks.append({**labels, **of, "quantity": names[0], **_row(found)})
                blocks.append({**labels, **of, "quantity": names[1], "value": [found.drift]})
    if not blocks:
        raise ValueError(f"all checkpoints of {series.name!r} hold nan or infinity: there is nothing to sample")
    return measured_table(blocks, _QUANTITIES)


def _row(found: Coefficient) -> Mapping[str, list[float]]:
    lo, hi = found.interval or (math.nan, math.nan)
    return {"value": [found.mean], "lo": [lo], "hi": [hi], "n": [len(found.chains)]}
