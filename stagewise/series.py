"""An ordered set of (step, weights), loaded lazily: at most one checkpoint is in memory at a time."""

import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from torch import Tensor

from stagewise.architecture import Architecture
from stagewise.folder import checkpoint_file, read_run
from stagewise.recipe import rebuild

State = Mapping[str, Tensor]


@dataclasses.dataclass(frozen=True)
class CheckpointSeries:
    """The checkpoints of one run, in the order of their steps.

    Iterating gives (step, weights) pairs, one loaded at a time; a slice is a series of fewer steps.

    Args:
        name: what the run is called in tables and figures.
        architecture: the model that the weights belong to.
        steps: optimiser steps, ascending.
        load: returns the weights of a step, by TransformerLens's parameter names.
    """

    name: str
    architecture: Architecture
    steps: tuple[int, ...]
    load: Callable[[int], State] = dataclasses.field(repr=False)

    def __post_init__(self) -> None:
        if not self.steps:
            raise ValueError(f"the series {self.name!r} has no checkpoints")
        if list(self.steps) != sorted(set(self.steps)):
            raise ValueError(f"the steps of a series ascend, each once; got {self.steps}")

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[tuple[int, State]]:
        return ((step, self.load(step)) for step in self.steps)

    def __getitem__(self, chosen: slice) -> "CheckpointSeries":
        return dataclasses.replace(self, steps=self.steps[chosen])

    def __repr__(self) -> str:
        span = f"{len(self)} checkpoints, steps {self.steps[0]} to {self.steps[-1]}"
        heads = f"{self.architecture.n_layers} layers of {self.architecture.n_heads} heads"
        return f"CheckpointSeries({self.name!r}: {span}; {heads})"

    def weights(self, step: int) -> State:
        """Load the weights of a step.

        Raises:
            ValueError: the series has no such step; the message names the nearest.
        """
        if step not in self.steps:
            nearest = min(self.steps, key=lambda there: abs(there - step))
            raise ValueError(f"the series {self.name!r} has no step {step}; the nearest is {nearest}")
        return self.load(step)


def open_series(folder: str | Path, classes: Iterable[type] = ()) -> CheckpointSeries:
    """Open a run folder: every checkpoint that its plan has promised so far.

    An interrupted run opens as far as it came.

    Args:
        folder: the run folder.
        classes: own initialisations that the recipe was made with.

    Raises:
        FileNotFoundError: not a run folder, no checkpoints yet, or one is missing in the middle of the series.
        ValueError: a file is truncated or damaged (when it is loaded); the message names it.
    """
    folder = Path(folder)
    described = read_run(folder)["recipe"]
    files = (folder / "checkpoints").glob("step-*.safetensors")
    there = {int(match[1]) for file in files if (match := re.fullmatch(r"step-(\d+)\.safetensors", file.name))}
    if not there:
        raise FileNotFoundError(f"{folder} holds no checkpoints yet: train it first, with the same recipe")
    promised = {step for step in described["plan"]["save"] if step <= max(there)}
    if missing := sorted(promised - there):
        raise FileNotFoundError(
            f"{checkpoint_file(folder, missing[0])} is missing, and {len(missing) - 1} more: the plan saved steps "
            f"up to {max(there)}. Restore the files, or delete {folder / 'checkpoints'} and train again: that gives "
            "the same bits"
        )
    name = Path(os.path.abspath(folder)).name  # "." has no name of its own
    architecture = rebuild(described["architecture"], classes)
    return CheckpointSeries(name, architecture, tuple(sorted(there)), lambda step: read_checkpoint(folder, step))


def read_checkpoint(folder: Path, step: int) -> State:
    """Read the weights of a step from a run folder.

    Raises:
        FileNotFoundError: the file is gone.
        ValueError: it is truncated or damaged; the message names it.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = checkpoint_file(folder, step)
    try:
        weights: State = load_file(path)
        return weights
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{path} is gone: the checkpoint of step {step} was there when the series was opened"
        ) from None
    except SafetensorError as reason:
        raise ValueError(
            f"{path} is truncated or damaged ({path.stat().st_size} bytes: {reason}). Restore it, or delete "
            f"{path.parent} and train again: it gives the same bits"
        ) from reason
