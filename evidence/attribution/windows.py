"""The small runs, and the window of updates in front of a head's onset in each."""

import contextlib
import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

from stagewise import models, recipe_for
from stagewise.checkpoints import rewind, run_folder
from stagewise.checkpoints.series import open_series
from stagewise.papers.samples import attention_of
from stagewise.papers.tasks import AssociativeRecall
from stagewise.recipe import Recipe
from stagewise.replay import Parent, Transition
from stagewise.replay.densifying import recipe_at
from stagewise.schedules import linear
from stagewise.table import Head
from stagewise.task import AbstractTask
from stagewise.tasks import MarkovChain, RepeatedTokens
from stagewise.training import Training, prepare, train


class Study(NamedTuple):
    """A task with the fields of its plan that are not the preset's, and the updates of its window."""

    task: type[AbstractTask]
    fields: dict[str, Any]
    plan: dict[str, Any]
    length: int


STUDIES = {
    "recall": Study(AssociativeRecall, {}, {"steps": 3200}, 150),
    "markov": Study(MarkovChain, {"n_sequences": None}, {"steps": 600, "batch_size": 128}, 100),
    "repeated": Study(RepeatedTokens, {"d_vocab": 32, "length": 16}, {"steps": 1500, "cooldown": 500}, 150),
}
"""Name -> study. All data are fresh, so that a sample is of one update."""

EVERY = 25
"""Updates from one checkpoint of a run to the next."""


class Window(NamedTuple):
    """Updates `start` to `stop` of a run, in which samples are weighted, and so many `after` it, which are not; the
    head whose onset it leads to, and the relation that it then attends to.
    """

    folder: Path
    head: Head
    relation: str
    start: int
    stop: int
    after: int

    @property
    def length(self) -> int:
        """Updates in which samples are weighted."""
        return self.stop - self.start

    @property
    def place(self) -> Path:
        """The folder of what is computed of this window."""
        return self.folder / "replays" / f"{self.start}-{self.stop}"


def trained(name: str, seed: int, folder: Path) -> Path:
    """Train the run of a study and seed, unless it is there; return its folder."""
    study = STUDIES[name]
    recipe = recipe_for(study.task, seed=seed, **study.fields)
    changes: dict[str, Any] = {**study.plan, "save": linear(EVERY, study.plan["steps"]), "states": None}
    recipe = dataclasses.replace(recipe, plan=dataclasses.replace(recipe.plan, **changes))
    run = folder / f"{name}-{seed}"
    train(recipe, run, progress=False)
    return run


def window_of(folder: Path, length: int) -> Window:
    """Return the window in front of the onset of the head that gains most attention in any transition of a run."""
    parent = Parent(folder, recipe_at(folder))
    after, found = parent.transitions_after(0), list[tuple[float, Head, Transition]]()
    shape = parent.recipe.architecture
    for head in ((layer, number) for layer in range(shape.n_layers) for number in range(shape.n_heads)):
        with contextlib.suppress(ValueError):  # it gains none
            transition, curve = attention_of(parent.table, head, after, None)
            found.append((float(curve.max() - curve[transition.begins]), head, transition))
    if not found:
        raise ValueError(f"no head of {folder} gains attention in a transition")
    _, head, transition = max(found, key=lambda each: each[0])
    saved = open_series(folder).steps
    stop = min(step for step in saved if step >= max(transition.comes, length))
    return Window(folder, head, str(transition.relation), stop - length, stop, min(length // 3, saved[-1] - stop))


def at_start(window: Window) -> tuple[Recipe, Training]:
    """Return the training of a run, as it is before the window's first update."""
    recipe = recipe_at(window.folder)
    training = prepare(recipe)
    now = rewind(window.folder, window.start, training.model, training.optimiser, training.way)
    for _ in training.steps(now, window.start, []):
        pass
    saved = run_folder.read_checkpoint(window.folder, window.start) if window.start % EVERY == 0 else None
    if saved is not None and any(not models.weights(training.model)[name].equal(each) for name, each in saved.items()):
        raise ValueError(f"the replay of {window.folder} gives other bits at step {window.start}")
    return recipe, training
