"""Does `audit --deep` name the checkpoints that compute something else, and no healthy ones: runs, really trained.

Into runs of `evidence.calibration.audit.clean_series`, read as the command does, faults of
`evidence.calibration.audit.corruptions` are
planted, one at a time. What a fault changes is counted in ways, the distance of the predictions from what they were
over that between the two neighbours' predictions; of the last checkpoint by its loss, over the range of the losses.
"""

import contextlib
import dataclasses
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch

from evidence.calibration.audit.clean_series import HELD_OUT, TUNED, Training, own
from evidence.calibration.audit.corruptions import CORRUPTIONS
from evidence.calibration.audit.corruptions import HELD_OUT as MORE_CORRUPTIONS
from evidence.calibration.audit.planted import Inapplicable, Planted, State
from evidence.calibration.onsets import Job
from evidence.calibration.rows import Row, share
from stagewise import models
from stagewise.checkpoints._outliers import DETOUR, detour_ratios
from stagewise.checkpoints._sketches import paths_of
from stagewise.checkpoints._weight_faults import PREDICTIONS, WORSE, Computed, compute, excess, off_the_path
from stagewise.checkpoints.audit import Deep
from stagewise.checkpoints.series import find
from stagewise.checkpoints.sources import by_hand
from stagewise.cli._verbs import deep_of

TRAINER = ("trainer gpt2 linear", "trainer neox polynomial", "trainer llama warmup")
RUNS: Mapping[str, Mapping[str, Training]] = {
    "own task": {name: each for name, each in {**TUNED, **HELD_OUT}.items() if each.make is own},
    "repeated tokens": {name: {**TUNED, **HELD_OUT}[name] for name in TRAINER},
}
"""What the command reads -> runs: of this library on their own tasks, of transformers' Trainer on random tokens."""

FAULTS = (
    *("fresh initialisation", "all weights scaled", "all weights scaled by 1.1", "embedding permuted", "rows permuted"),
    *("sign flipped", "head zeroed", "matrix zeroed", "noise on a matrix", "layers exchanged", "optimiser's state"),
    *("matrix transposed", "gain zeroed", "gain scaled", "layer of another step", "rounded to bfloat16"),
)
"""Faults of one checkpoint that leave its weights finite and of their shapes."""

Better = Literal["higher", "lower"]
MOVED: tuple[tuple[float, float, float, Better], ...] = (
    (0.0, 1.0, 0.05, "lower"),
    (2.0, 4.0, 0.8, "higher"),
    (4.0, np.inf, 0.95, "higher"),
)
"""Ways from and to, and how often faults that change as much are named: the threshold lies in the gap."""

RAISED: tuple[tuple[float, float, float, Better], ...] = (
    (-np.inf, 0.1, 0.05, "lower"),
    (0.3, np.inf, 0.95, "higher"),
)
"""The same of the last checkpoint's loss, in ranges of the other losses."""


class InMemory(Planted):
    """Weights by step, into which a fault is planted."""

    def __init__(self, states: Mapping[int, State]) -> None:
        self.states, self.steps = dict(states), sorted(states)

    def load(self, step: int) -> State:
        return dict(self.states[step])

    def save(self, step: int, state: State) -> None:
        self.states[step] = state


@dataclasses.dataclass(frozen=True)
class Run:
    """A healthy run, and what its checkpoints compute."""

    model: models.Model
    deep: Deep
    states: Mapping[int, State]
    computed: Sequence[Computed]

    @classmethod
    def of(cls, training: Training) -> "Run":
        """Train it, and read it as the command does."""
        with tempfile.TemporaryDirectory() as scratch, contextlib.redirect_stdout(None):
            folder = training.write(Path(scratch) / "run")
            source = find(folder)
            deep = deep_of(str(folder), source, None, None)
            states = {entry.at.step: dict(entry.load()) for entry in sorted(source.entries, key=lambda e: e.at.step)}
        model = models.build(deep.architecture)
        return cls(model, deep, states, _computed(model, deep, states))


class Fault(NamedTuple):
    """A planted fault: at the last checkpoint or before it, what it changes, and whether it was named, and another."""

    last: bool
    ways: float
    rise: float
    named: bool
    besides: bool


def jobs() -> Iterator[tuple[str, Job]]:
    """Yield every case by its name."""
    for kind in RUNS:
        yield f"deep audit {kind}", partial(_audits, kind)


def _audits(kind: str, repetitions: int) -> list[Row]:
    torch.set_num_threads(1)
    healthy, faults = list[Sequence[Computed]](), list[Fault]()
    for seed in range(max(repetitions // 20, 1)):
        for name, training in RUNS[kind].items():
            run = Run.of(training._replace(seed=training.seed + 1000 * seed))
            found = [fault for each in FAULTS for fault in _planted(run, each)]
            healthy.append(run.computed)
            faults += found
            named = sum(fault.named for fault in found)
            print(f"  {name}, seed {seed}: detours up to {_detours(run.computed).max():.1f}, losses above both "
                  f"neighbours' by up to {_rises(run.computed).max():.2f} of their range; {named} of {len(found)} "
                  "faults named", flush=True)  # fmt: skip
    return [*_of_healthy(kind, healthy), *_of_faults(kind, faults)]


def _of_healthy(kind: str, runs: Sequence[Sequence[Computed]]) -> Iterator[Row]:
    yield share(f"healthy runs with a checkpoint named: {kind}", [bool(_named(run)) for run in runs], 0.0, "lower")
    for part, goal in ((0.5, 0.05), (0.75, 0.01), (1.0, 0.0)):
        ratios = np.concatenate([_detours(run) for run in runs])
        name = f"healthy, detour above {part * DETOUR:g}: {kind}"
        yield share(name, (ratios > part * DETOUR).tolist(), goal, "lower")
    for part, goal in ((0.5, 0.01), (1.0, 0.0)):
        rises = np.concatenate([_rises(run) for run in runs])
        name = f"healthy, loss above neighbours' by {part * WORSE:g} of the range: {kind}"
        yield share(name, (rises > part * WORSE).tolist(), goal, "lower")


def _of_faults(kind: str, faults: Sequence[Fault]) -> Iterator[Row]:
    for least, most, goal, better in MOVED:
        hits = [fault.named for fault in faults if not fault.last and least <= fault.ways < most]
        yield share(f"named, inner, moved {_span(least, most)} ways: {kind}", hits, goal, better)
    for least, most, goal, better in RAISED:
        hits = [fault.named for fault in faults if fault.last and least <= fault.rise < most]
        yield share(f"named, last, loss raised {_span(least, most)} ranges: {kind}", hits, goal, better)
    least, most, goal, better = MOVED[-1]
    hits = [fault.named for fault in faults if fault.last and fault.ways >= least]
    yield share(f"named, last, moved {_span(least, most)} ways: {kind}", hits, goal, better)
    yield share(f"others named beside a fault: {kind}", [fault.besides for fault in faults], 0.05, "lower")


def _span(least: float, most: float) -> str:
    return f"{least:g} or more" if np.isinf(most) else f"less than {most:g}" if least <= 0 else f"{least:g} to {most:g}"


def _planted(run: Run, name: str) -> Iterator[Fault]:
    """Plant a fault at two inner checkpoints and at the last one, where it applies."""
    steps = list(run.states)
    for row in (len(steps) // 3, 2 * len(steps) // 3, len(steps) - 1):
        planted, here = InMemory(run.states), InMemory(run.states)
        try:
            {**CORRUPTIONS, **MORE_CORRUPTIONS}[name](planted, steps[row], here, torch.Generator().manual_seed(row))
        except Inapplicable:
            continue
        (computed,) = _computed(run.model, run.deep, {steps[row]: planted.states[steps[row]]})
        changed = [*run.computed[:row], computed, *run.computed[row + 1 :]]
        named, last = _named(changed), row == len(steps) - 1
        numbers = [one.sketch.numbers for one in run.computed]
        way = np.linalg.norm(numbers[row if last else row + 1] - numbers[row - 1])
        moved = np.linalg.norm(computed.sketch.numbers - numbers[row])
        yield Fault(last, float(moved / way), _rises(changed)[row - 1], steps[row] in named, bool(named - {steps[row]}))


def _computed(model: models.Model, deep: Deep, states: Mapping[int, State]) -> list[Computed]:
    entries = by_hand("run", states, states.__getitem__).entries
    found = [compute(model, entry, deep.batch) for entry in entries]
    return [one for one in found if one is not None]


def _named(computed: Sequence[Computed]) -> set[int]:
    return {step for finding in off_the_path(computed) for step in finding.steps}


def _detours(computed: Sequence[Computed]) -> np.ndarray:
    """Return the detour over each inner checkpoint."""
    return np.concatenate([detour_ratios(path) for path in paths_of([{PREDICTIONS: one.sketch} for one in computed])])


def _rises(computed: Sequence[Computed]) -> np.ndarray:
    """Return by how much the loss of each but the first checkpoint exceeds its neighbours', in ranges of the others."""
    losses = np.array([one.loss for one in computed])
    return np.array([excess(losses, row) / np.ptp(np.delete(losses, row)) for row in range(1, len(losses))])
