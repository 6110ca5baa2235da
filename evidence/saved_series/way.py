"""A way of saving a series: who writes it, how it is written, and how the writer's own tool loads it again."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from evidence.saved_series.models import CONFIGS, STEPS, Model, training, untrained

Save = Callable[[Model, Path, int], object]


@dataclasses.dataclass(frozen=True)
class Way:
    """A way of saving.

    Args:
        name: what is written, in a few words.
        tool: who writes it.
        write: trains an untrained model in place, and saves the series beneath a folder.
        reload: loads the checkpoint of a step by the tool's own functions, given the folder and an untrained model.
        place: what a person opens, beneath the folder.
        steps: those that were saved.
        families: the models that are saved this way.
        make: returns an untrained model of a family.
        options: what a person says to `open_series`, from the folder and an untrained model.
    """

    name: str
    tool: str
    write: Callable[[Model, Path], object]
    reload: Callable[[Path, int, Model], Model]
    place: str = "."
    steps: tuple[int, ...] = STEPS
    families: tuple[str, ...] = tuple(CONFIGS)
    make: Callable[[str], Model] = untrained
    options: Callable[[Path, Model], Mapping[str, Any]] = lambda folder, model: {}


def each(save: Save) -> Callable[[Model, Path], None]:
    """Return a training by a plain loop that saves each step by a function of the model, the folder and the step."""

    def write(model: Model, folder: Path) -> None:
        for step in training(model):
            save(model, folder, step)

    return write


def config_given(folder: Path, model: Model) -> Mapping[str, Any]:
    """Return what a person says where no config lies beside the weights."""
    return {"architecture": model.config}
