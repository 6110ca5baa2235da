"""Each checkpoint of a series read once, here or elsewhere: compared with others, and placed on the trajectory."""

import concurrent.futures
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.stats import norm
from torch import Tensor
from tqdm.auto import tqdm

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.attention import residual_hooks_of
from stagewise.checkpoints import not_finite, project
from stagewise.checkpoints.series import CheckpointSeries, State
from stagewise.measurement._passes import cut, default_memory, slices_needed
from stagewise.measurement._rows import check_batch, check_series, checkpoint_labels, finite_states
from stagewise.models import Model
from stagewise.processes import map_elsewhere
from stagewise.statistics import LEVEL
from stagewise.table import Columns
from stagewise.task import Batch

_FEWEST = 4
"""Vectors that the estimate without bias needs."""

_ROUNDING = 1e-12
"""HSIC, over the square of the mean squared norm, that rounding leaves of vectors that do not vary."""

GROUPS = 20
"""Groups of sequences, one of which at a time is left out for an interval."""

TOGETHER = 8
"""Checkpoints of one task of an executor, which reads the last one, and the one before them, too."""


class _Estimate(NamedTuple):
    """A value and its 95 % interval; None where there is only one group of vectors."""

    value: float
    lo: float | None = None
    hi: float | None = None


def linear_cka(
    x: Float[Tensor, "vector d"], y: Float[Tensor, "vector e"], group: Int[Tensor, " vector"]
) -> _Estimate | None:
    """Return the linear centred kernel alignment of two representations of the same inputs, in [-1, 1].

        CKA = HSIC(x, y) / sqrt(HSIC(x, x) HSIC(y, y))

    1 for representations that are equal up to rotation, scale and shift; 0 in expectation for independent ones, since
    HSIC is estimated without bias. The interval is a jackknife over groups of vectors that are not independent, as
    those of a sequence. None where one of them does not vary, or with fewer than four vectors.

    Source: Kornblith et al. (2019), Similarity of Neural Network Representations Revisited, arXiv:1905.00414, section
    3; Song et al. (2012), Feature Selection via Dependence Maximization, JMLR 13, equation 5, for HSIC without bias.
    """
    if len(x) < _FEWEST:
        return None
    x, y = (each.double() - each.double().mean(0) for each in (x, y))
    by_group = [_products(*pair, group) for pair in ((x, y), (x, x), (y, y))]
    value = float(_alignment([products.sum(0, keepdim=True) for products in by_group])[0])
    if not np.isfinite(value):
        return None
    others = _alignment([products.sum(0) - products for products in by_group])
    n = len(others)
    if n < 2 or not np.isfinite(others).all():
        return _Estimate(value)
    margin = norm.ppf((1 + LEVEL) / 2) * np.sqrt((n - 1) * others.var())
    return _Estimate(value, float(max(value - margin, -1)), float(min(value + margin, 1)))


def _products(x: Tensor, y: Tensor, group: Tensor) -> Float[Tensor, "group row column"]:
    """Return the sums over each group that HSIC is made of: products of (x, |x|^2, 1) and (y, |y|^2, 1)."""
    rows, columns = (torch.cat([z, z.square().sum(-1, keepdim=True), torch.ones_like(z[:, :1])], -1) for z in (x, y))
    return torch.stack([rows[group == one].mT @ columns[group == one] for one in range(int(group.max()) + 1)])


def _alignment(products: Sequence[Float[Tensor, "group _ _"]]) -> np.ndarray:
    """Return CKA from the sums of (x, y), (x, x) and (y, y); nan where one does not vary, or of too few vectors."""
    cross, of_x, of_y = (_hsic(each).numpy(force=True) for each in products)
    n = products[0][:, -1, -1].numpy(force=True)
    varies = (n >= _FEWEST) & (of_x > _least(products[1])) & (of_y > _least(products[2]))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(varies, (cross / np.sqrt(of_x * of_y)).clip(-1, 1), np.nan)


def _hsic(products: Float[Tensor, "group row column"]) -> Float[Tensor, " group"]:
    """Return the Hilbert-Schmidt independence criterion of linear kernels, estimated without bias."""
    cross, n = products[:, :-2, :-2], products[:, -1, -1]
    sum_x, sum_y = products[:, :-2, -1], products[:, -1, :-2]
    x_by_size, y_by_size = products[:, :-2, -2], products[:, -2, :-2]  # sums of x |y|^2 and of y |x|^2
    sizes, size_x, size_y = products[:, -2, -2], products[:, -2, -1], products[:, -1, -2]
    trace = cross.square().sum((-2, -1)) - sizes
    totals = (sum_x.square().sum(-1) - size_x) * (sum_y.square().sum(-1) - size_y)
    through = torch.einsum("gd,gde,ge->g", sum_x, cross, sum_y)
    of_rows = through - (sum_x * x_by_size).sum(-1) - (sum_y * y_by_size).sum(-1) + sizes
    return (trace + totals / ((n - 1) * (n - 2)) - 2 * of_rows / (n - 2)) / (n * (n - 3))


def _least(products: Float[Tensor, "group row column"]) -> np.ndarray:
    """Return the HSIC that rounding leaves of vectors that do not vary."""
    least: np.ndarray = (_ROUNDING * (products[:, -2, -1] / products[:, -1, -1]).square()).numpy(force=True)
    return least


@dataclasses.dataclass(frozen=True, eq=False)
class Positions:
    """Scored positions, in the order of the sequences."""

    sequence: Int[Tensor, " chosen"]
    position: Int[Tensor, " chosen"]

    @classmethod
    def of(cls, batch: Batch, most: int) -> "Positions":
        """Take the scored positions of a batch; of more than `most`, so many, spread evenly."""
        scored = batch.scored.nonzero()
        chosen = torch.linspace(0, len(scored) - 1, min(most, len(scored)), dtype=torch.float64).round().long()
        return cls(*scored[chosen.to(scored.device)].unbind(1))

    def __len__(self) -> int:
        return len(self.sequence)

    def read(
        self, model: Model, architecture: Architecture, batch: Batch, hooks: Iterable[str] = ()
    ) -> tuple[Float[Tensor, "chosen token"], dict[str, Float[Tensor, "chosen *axes"]]]:
        """Return predictions (log-probabilities, nats) and activations at the positions, in float32 on the CPU."""
        names, start = list(hooks), 0
        predictions, activations = list[Tensor](), {name: list[Tensor]() for name in names}
        device = next(model.parameters()).device
        batch = batch.to(device)
        for part in cut(batch, slices_needed(batch, architecture, default_memory(device))):
            here = (self.sequence >= start) & (self.sequence < start + len(part))
            rows = (self.sequence[here] - start).to(device), self.position[here].to(device)
            log_probs, clean = models.clean_pass(model, part.tokens, names, regression=part.is_regression)
            predictions.append(log_probs[rows].float().cpu())
            for name in names:
                activations[name].append(clean[name][rows].float().cpu())
            start += len(part)
        return torch.cat(predictions), {name: torch.cat(each) for name, each in activations.items()}


class Represented(NamedTuple):
    """A checkpoint for comparisons: its residual stream, and its place, as one vector."""

    streams: Float[Tensor, "layer position model"]
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
                rows += [] if other is None else [{**labels, **block} for block in self._alignments(current, other)]
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
            return Represented(torch.empty(0, 0, 0), self._weights(state))
        models.load(model, state)
        streams, place = torch.empty(0, 0, 0), np.empty(0)
        if self.compared:
            hooks = residual_hooks_of(architecture.n_layers)
            _, read = Positions.of(batch, self.compared).read(model, architecture, batch, hooks)
            streams = torch.stack(list(read.values()))
        if self.placed:
            chosen = Positions.of(batch, max(1, self.placed // (architecture.n_outputs * len(self.series))))
            predictions, _ = chosen.read(model, architecture, batch)
            place = predictions.flatten().numpy() / len(chosen) ** 0.5
        return Represented(streams, place)

    def _weights(self, state: State) -> Float[np.ndarray, " number"]:
        weights = models.without_constants(state)
        flat = [weights[name].float().flatten().cpu() for name in sorted(weights) if weights[name].is_floating_point()]
        many = sum(map(len, flat)) * len(self.series) > self.placed
        return np.concatenate([project(each) if many else each.numpy() for each in flat])

    def _alignments(self, one: Represented, other: Represented) -> Iterator[Columns]:
        """Yield the rows of the residual stream of each layer; none where it does not vary."""
        assert self.batch is not None
        sequence = Positions.of(self.batch, self.compared).sequence
        n = int(sequence.max()) + 1
        group = sequence.cpu() * min(GROUPS, n) // n
        for layer, streams in enumerate(zip(one.streams, other.streams, strict=True)):
            if (estimate := linear_cka(*streams, group)) is not None:
                value, lo, hi = estimate
                numbers = {"value": [value], "lo": [lo], "hi": [hi], "n": [n]}
                yield {"probe": "LinearCKA", "quantity": "alignment", "layer": layer, **numbers}
