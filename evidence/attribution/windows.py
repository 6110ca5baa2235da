"""The small runs, and the window of updates in front of a head's onset in each."""

import contextlib
import copy
import dataclasses
import functools
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from stagewise import models, recipe_for
from stagewise.architecture import Architecture
from stagewise.checkpoints import rewind, run_folder
from stagewise.checkpoints.series import open_series
from stagewise.papers.linear_init import LinearInit
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
    """A task with the fields of its plan and the model that are not the preset's."""

    task: type[AbstractTask]
    fields: dict[str, Any]
    plan: dict[str, Any]
    architecture: Architecture | None = None


_ONE_HEAD_A_LAYER = {
    **{"n_layers": 2, "n_heads": 1, "d_model": 32, "d_head": 32, "attn_only": True, "normalization_type": None},
    **{"n_ctx": 11, "d_vocab": 16, "positional_embedding_type": "shortformer"},
}

STUDIES = {
    "recall": Study(
        AssociativeRecall,
        {"n_pairs": 4, "n_tokens": 32},
        {"steps": 1800, "batch_size": 256, "learning_rate": 1e-3},
    ),
    "markov": Study(MarkovChain, {"n_sequences": None}, {"steps": 500, "batch_size": 256}),
    "repeated": Study(
        RepeatedTokens,
        {"d_vocab": 16, "length": 8},
        {"steps": 900, "batch_size": 128, "learning_rate": 1e-3, "weight_decay": 0.0},
        Architecture(_ONE_HEAD_A_LAYER, LinearInit()),
    ),
}
"""Name -> study: small models, trained in a minute. All data are fresh, so that a sample is of one update. Batches are
large and rates low beside the presets: the gradient of half a batch is then near that of the whole."""

LENGTH = 75
"""Updates of a window."""

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


def recipe_of(name: str, seed: int) -> Recipe:
    """Return the recipe of a study and seed."""
    study = STUDIES[name]
    recipe = recipe_for(study.task, seed=seed, **study.fields)
    changes: dict[str, Any] = {**study.plan, "save": linear(EVERY, study.plan["steps"]), "states": None}
    plan, architecture = dataclasses.replace(recipe.plan, **changes), study.architecture or recipe.architecture
    return dataclasses.replace(recipe, plan=plan, architecture=architecture)


def trained(name: str, seed: int, folder: Path) -> Path:
    """Train the run of a study and seed, unless it is there; return its folder."""
    run = folder / f"{name}-{seed}"
    train(recipe_of(name, seed), run, progress=False)
    return run


def window_of(folder: Path, length: int = LENGTH) -> Window:
    """Return the window in front of the onset of the head that gains most attention in any transition of a run.

    Transitions of the first `2 * length` steps are left out: Adam's moments hold few gradients then.
    """
    parent = Parent(folder, recipe_at(folder))
    after, found = parent.transitions_after(2 * length), list[tuple[float, Head, Transition]]()
    shape = parent.recipe.architecture
    for head in ((layer, number) for layer in range(shape.n_layers) for number in range(shape.n_heads)):
        with contextlib.suppress(ValueError):  # it gains none
            transition, curve = attention_of(parent.table, head, after, None)
            found.append((float(curve.max() - curve[transition.begins]), head, transition))
    if not found:
        raise ValueError(f"no head of {folder} gains attention in a transition")
    _, head, transition = max(found, key=lambda each: each[0])
    saved = open_series(folder).steps
    stop = min(step for step in saved if step >= transition.comes)
    return Window(folder, head, str(transition.relation), stop - length, stop, min(length // 3, saved[-1] - stop))


def at_start(window: Window) -> tuple[Recipe, Training]:
    """Return the training of a run, as it is before the window's first update."""
    recipe = recipe_at(window.folder)
    training = prepare(recipe)
    weights, optimiser = _start(window)
    models.load(training.model, weights)
    training.optimiser.load_state_dict(copy.deepcopy(optimiser))
    return recipe, training


@functools.lru_cache(maxsize=1)
def _start(window: Window) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the weights before the window's first update, and the state of the optimiser."""
    training = prepare(recipe_at(window.folder))
    now = rewind(window.folder, window.start, training.model, training.optimiser, training.way)
    for _ in training.steps(now, window.start, []):
        pass
    weights = models.weights(training.model)
    saved = run_folder.read_checkpoint(window.folder, window.start) if window.start % EVERY == 0 else None
    if saved is not None and any(not weights[name].equal(each) for name, each in saved.items()):
        raise ValueError(f"the replay of {window.folder} gives other bits at step {window.start}")
    return weights, copy.deepcopy(training.optimiser.state_dict())
