"""Each checkpoint of a series read once, here or elsewhere: compared with others, and placed on the trajectory."""

import concurrent.futures
import dataclasses
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from tqdm.auto import tqdm

from stagewise import models
from stagewise.attention import Circuits, residual_hooks_of
from stagewise.checkpoints._sketches import project
from stagewise.checkpoints._weight_files import not_finite
from stagewise.checkpoints.series import CheckpointSeries, State
from stagewise.measurement._inputs import check_batch, check_series, finite_states
from stagewise.measurement._positions import Positions
from stagewise.measurement._rows import checkpoint_labels
from stagewise.measurement._similarity import linear_cka, principal_angles
from stagewise.models import Model
from stagewise.processes import map_elsewhere
from stagewise.table import Columns
from stagewise.task import Batch

SUBSPACES = "QK queries", "QK keys", "OV reads", "OV writes"
"""Subspaces of the residual stream that a head uses: column and row space of W_Q W_K^T, and of W_V W_O."""

GROUPS = 20
"""Groups of sequences, one of which at a time is left out for an interval."""

TOGETHER = 8
"""Checkpoints of one task of an executor, which reads the last one, and the one before them, too."""

Subspaces = dict[tuple[int, int, str], np.ndarray]
"""Layer, head and name of a subspace -> an orthonormal basis of it, [model dimension]."""


class Represented(NamedTuple):
    """A checkpoint for comparisons: its residual stream, the heads' subspaces, and its place, as one vector."""

    streams: Float[Tensor, "layer position model"]
    subspaces: Subspaces
    place: Float[np.ndarray, " number"]


class Seen(NamedTuple):
    """The rows of a checkpoint's comparisons, and its place."""

    step: int
    rows: list[Columns]
    place: Float[np.ndarray, " number"]


@dataclasses.dataclass(frozen=True, eq=False)
class Along:
    """Readings of each checkpoint: comparisons at so many positions, and its place by so many numbers; 0 takes none."""

    series: CheckpointSeries
    batch: Batch | None
    compared: int = 0
    placed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        check_series(self.series)
        if self.batch is not None:
            check_batch(self.batch, self.series.architecture, (), f"the series {self.series.name}")

    def seen(self, executor: concurrent.futures.Executor | None, progress: bool, doing: str) -> list[Seen]:
        """Return the rows and the place of each checkpoint with finite weights, in order; warn of the others."""
        steps, found, title = range(len(self.series)), list[Seen](), f"{self.series.name}: {doing}"
        spans = [steps[start : start + TOGETHER] for start in steps[::TOGETHER]]
        there = None if executor is None else map_elsewhere(executor, self._listed, spans)
        with tqdm(total=len(steps), disable=not progress, desc=title, unit="checkpoint") as bar:
            for one in self._over(steps) if there is None else chain.from_iterable(there):
                found.append(one)
                bar.update()
        return found

    def _listed(self, span: range) -> list[Seen]:
        return list(self._over(span))

    def _over(self, span: range) -> Iterator[Seen]:
        model = models.unloaded(self.series.architecture, device=self.device)
        end, last = self._before(model, len(self.series))
        _, previous = self._before(model, span.start)
        for step in self.series.steps[span.start : span.stop]:
            current = last if step == end else self._finite(model, step)
            if current is None:
                continue
            rows = list[Columns]()
            for compared, other in (("previous checkpoint", previous), ("last checkpoint", last)):
                labels = {**checkpoint_labels(self.series, step), "compared": compared}
                rows += [] if other is None else [{**labels, **block} for block in self._compare(current, other)]
            yield Seen(step, rows, current.place)
            previous = current if self.compared else None

    def _before(self, model: Model, place: int) -> tuple[int | None, Represented | None]:
        """Return the last checkpoint with finite weights of the first so many; none where nothing is compared."""
        for step in reversed(self.series.steps[:place]) if self.compared else ():
            if not not_finite(state := self.series.load(step)):
                return step, self._represented(model, state)
        if self.compared and place == len(self.series):
            name = self.series.name
            raise ValueError(f"all checkpoints of {name!r} hold nan or infinity: there is nothing to compare")
        return None, None

    def _finite(self, model: Model, step: int) -> Represented | None:
        states = finite_states(self.series, [(step, self.series.load(step))])
        return next((self._represented(model, state) for _, state in states), None)

    def _represented(self, model: Model, state: State) -> Represented:
        architecture, batch = self.series.architecture, self.batch
        if batch is None:
            return Represented(torch.empty(0, 0, 0), {}, self._weights(state))
        models.load(model, state)
        streams, subspaces, place = torch.empty(0, 0, 0), Subspaces(), np.empty(0)
        if self.compared:
            hooks = residual_hooks_of(architecture.n_layers)
            _, read = Positions.of(batch, self.compared).read(model, architecture, batch, hooks)
            streams, subspaces = torch.stack(list(read.values())), _subspaces(models.circuits(model))
        if self.placed:
            chosen = Positions.of(batch, max(1, self.placed // (architecture.n_outputs * len(self.series))))
            predictions, _ = chosen.read(model, architecture, batch)
            place = predictions.flatten().numpy() / len(chosen) ** 0.5
        return Represented(streams, subspaces, place)

    def _weights(self, state: State) -> Float[np.ndarray, " number"]:
        weights = models.without_constants(state)
        flat = [weights[name].float().flatten().cpu() for name in sorted(weights) if weights[name].is_floating_point()]
        many = sum(map(len, flat)) * len(self.series) > self.placed
        return np.concatenate([project(each) if many else each.numpy() for each in flat])

    def _compare(self, one: Represented, other: Represented) -> Iterator[Columns]:
        assert self.batch is not None
        yield from _alignments(one, other, Positions.of(self.batch, self.compared).sequence)
        yield from _angles(one, other)


def _subspaces(circuits: Circuits) -> Subspaces:
    """Return a basis of each subspace that the heads use; a matrix of zeros has none."""
    found: Subspaces = {}
    for matrices, names in ((circuits.QK, SUBSPACES[:2]), (circuits.OV, SUBSPACES[2:])):
        U, S, V = (part.detach().cpu() for part in matrices.svd())
        ranks = (S / S[..., :1] > torch.finfo(S.dtype).eps * U.shape[-2]).sum(-1)  # 0 / 0 is not larger
        for layer, head in np.ndindex(*ranks.shape):
            for name, basis in zip(names, (U, V), strict=True):
                if rank := int(ranks[layer, head]):
                    found[layer, head, name] = basis[layer, head, :, :rank].double().numpy()
    return found


def _alignments(one: Represented, other: Represented, sequence: Tensor) -> Iterator[Columns]:
    """Yield the rows of the residual stream of each layer; none where it does not vary."""
    n = int(sequence.max()) + 1
    group = sequence.cpu() * min(GROUPS, n) // n
    for layer, streams in enumerate(zip(one.streams, other.streams, strict=True)):
        if (estimate := linear_cka(*streams, group)) is not None:
            value, lo, hi = estimate
            numbers = {"value": [value], "lo": [lo], "hi": [hi], "n": [n]}
            yield {"probe": "LinearCKA", "quantity": "alignment", "layer": layer, **numbers}


def _angles(one: Represented, other: Represented) -> Iterator[Columns]:
    """Yield the rows of the subspaces that both have."""
    both = [key for key in one.subspaces if key in other.subspaces]
    angles = [principal_angles(one.subspaces[key], other.subspaces[key]) for key in both]
    layer, head, subspace = (list(part) for part in zip(*both, strict=True)) if both else ([], [], [])
    axes = {"probe": "PrincipalAngles", "layer": layer, "head": head, "subspace": subspace}
    for quantity, values in (("mean_angle", [a.mean() for a in angles]), ("largest_angle", [a.max() for a in angles])):
        yield {**axes, "quantity": quantity, "value": values}
