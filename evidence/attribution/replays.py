"""Exact replays of a window with other weights of its samples: a file each, which no killed worker loses."""

import copy
import functools
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from tqdm.auto import tqdm

from evidence.attribution.windows import Window, at_start
from stagewise import models
from stagewise.attention import hooks_of
from stagewise.checkpoints.run_folder import write
from stagewise.measurement.probe_batch import load_batch
from stagewise.models.process import one_thread
from stagewise.papers.adjoint import sample_losses
from stagewise.processes import several
from stagewise.task import Batch

EVERY = 5
"""Updates from one reading to the next."""

NUDGE = 1e-7
"""Relative change of initial weights by which a replay is repeated, about the rounding of float32."""

Draw = tuple[int, float, bool]
"""Number of a draw, by how much it changes weights, and whether the start is nudged."""


class Score(NamedTuple):
    """What is read: a head's attention to a relation."""

    layer: int
    head: int
    relation: str

    def __str__(self) -> str:
        return f"L{self.layer}H{self.head} to {self.relation}"


class Replayer:
    """A window that is trained again and again."""

    def __init__(self, window: Window) -> None:
        """Go to the window's first update."""
        self.window = window
        recipe, self.training = at_start(window)
        self.batch = load_batch(recipe, window.folder)
        self.shares = torch.stack([_shares(self.batch, relation) for relation in self.batch.relations])
        self.names = hooks_of("attn.hook_pattern", recipe.architecture.n_layers)
        self.start = models.weights(self.training.model), copy.deepcopy(self.training.optimiser.state_dict())
        self.batches = [self.training.batch_at(step) for step in range(window.start, window.stop + window.after)]
        self.size = len(self.batches[0])
        shape = recipe.architecture
        heads = [(layer, head) for layer in range(shape.n_layers) for head in range(shape.n_heads)]
        self.scores = [Score(*head, relation) for head in heads for relation in self.batch.relations]

    @property
    def row(self) -> int:
        """The place of the window's own head and relation among the scores."""
        return self.scores.index(Score(*self.window.head, self.window.relation))

    @property
    def steps(self) -> range:
        """The steps at which attention is read, on both sides of the window's end."""
        window = self.window
        before = min(window.length, window.after) // EVERY * EVERY
        return range(window.stop - before, window.stop + window.after + 1, EVERY)

    def curves(
        self, weights: Float[Tensor, "step sample"], nudge: int | None = None
    ) -> Float[np.ndarray, "score reading"]:
        """Train with these weights in the window and with 1 after it; return each head's attention to each relation."""
        training, window = self.training, self.window
        models.load(training.model, self.start[0])
        training.optimiser.load_state_dict(copy.deepcopy(self.start[1]))
        if nudge is not None:
            g = torch.Generator().manual_seed(nudge)
            for parameter in models.parameters(training.model).values():
                noise = torch.randn(parameter.shape, generator=g)
                parameter.data *= 1 + NUDGE * noise

        parameters = models.parameters(training.model)

        def loss_at(step: int) -> Tensor:
            losses = sample_losses(training, parameters, self.batches[step - window.start])
            return losses @ weights[step - window.start] if step < window.stop else losses.sum()

        readings = []
        for step in training._replace(loss_at=loss_at).steps(window.start, window.stop + window.after, []):
            if step in self.steps:
                readings.append(self._read())
        return np.array(readings, np.float32).T

    @torch.no_grad()
    def _read(self) -> Float[np.ndarray, " score"]:
        found: list[Tensor] = []

        def read(pattern: Tensor, hook: Any) -> None:
            found.append(torch.einsum("bhqk,rbqk->hr", pattern, self.shares).flatten())

        hooks: list[Any] = [(name, read) for name in self.names]
        self.training.model.run_with_hooks(self.batch.tokens, fwd_hooks=hooks)
        return torch.cat(found).numpy()


def _shares(batch: Batch, relation: str) -> Float[Tensor, "batch query key"]:
    """Return what a unit of attention from a query to a key adds to `along` of `AttentionTo`."""
    keys = batch.relations[relation].float()
    queries = keys.any(-1).sum(-1)
    return keys / queries.clamp(min=1)[:, None, None] / (queries > 0).sum()


def weights_of(shape: tuple[int, int], number: int, size: float) -> Float[Tensor, "step sample"]:
    """Return weights 1 + size of a random half of each update's samples and 1 - size of the other half, so that their
    sum is unchanged; those of an odd number are the complement's. A size of 1 leaves a half out.
    """
    order = np.random.default_rng(number // 2).random(shape).argsort(1).argsort(1)
    signs = np.where(order < shape[1] // 2, 1.0, -1.0) * (-1) ** number
    return torch.from_numpy(1 + size * signs).float()


def place_of(window: Window, draw: Draw) -> Path:
    """Return where a replay's curves are."""
    number, size, nudged = draw
    return window.place / f"{size:g}{'-nudged' if nudged else ''}" / f"{number:04d}.npy"


@functools.lru_cache(maxsize=1)
def _replayer(window: Window) -> Replayer:
    one_thread()
    return Replayer(window)


def _replay(window: Window, draw: Draw) -> None:
    number, size, nudged = draw
    replayer = _replayer(window)
    weights = weights_of((window.length, replayer.size), number, size)
    curves = replayer.curves(weights, number if nudged else None)
    write(place_of(window, draw), lambda partial: _save(partial, curves))


def _save(path: Path, curves: np.ndarray) -> None:
    with open(path, "wb") as file:
        np.save(file, curves)


def replay_all(window: Window, draws: Sequence[Draw], workers: int = 2) -> Float[np.ndarray, "draw score reading"]:
    """Return the curves of these draws; those that are on disk are not replayed, a dead worker's are begun again."""
    while missing := [draw for draw in draws if not place_of(window, draw).exists()]:
        try:
            with several(workers) as pool:
                each = (pool.map if pool else map)(functools.partial(_replay, window), missing)
                list(tqdm(each, total=len(missing), desc=window.folder.name))
        except BrokenExecutor:
            if not any(place_of(window, draw).exists() for draw in missing):
                raise
    return np.stack([np.load(place_of(window, draw)) for draw in draws])
