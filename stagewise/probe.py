"""A probe: a pure function of one checkpoint's view that returns readings, axes by name."""

import abc
import copy
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from stagewise.architecture import Architecture
from stagewise.attention import Circuits, ScoredQueries, hooks_of, mass_by_query, offset_profile
from stagewise.batch import END, Prompts
from stagewise.intervention import Attribution, Edit
from stagewise.loss import EditedPass as EditedPass
from stagewise.loss import Effect as Effect
from stagewise.loss import ScoredPredictions, mean_of_rows, prediction_loss
from stagewise.table import NO_AXES, check_axes, check_labels
from stagewise.table import Quantity as Quantity
from stagewise.task import Batch
from stagewise.task import chosen as chosen

Statistic = Callable[[np.ndarray], np.ndarray]
"""From means over the batch, with leading axes of any number, to values with the same leading axes."""


@runtime_checkable
class Effects(Protocol):
    """The effects of the edits that a probe asks for once it knows its readings of all sequences.

    `note` is what it keeps of a checkpoint; `around` are its notes of the two around that were measured whole, or none.
    """

    architecture: Architecture
    sequences: int
    around: Sequence[Any]
    note: Any

    def __call__(self, edits: Sequence[Edit], first: int | None = None) -> Effect:
        """Return the effects of edits on the first sequences of the batch, one edit a column; None for all."""


Labels = dict[str, Sequence[str | int]]
"""The names of the entries of each axis, by its name."""


@dataclasses.dataclass(frozen=True, eq=False)
class Reading:
    """A tensor with named axes: a probe's result at one checkpoint. Its means become a `LabelledArray`, and rows.

    Where the first axis is "batch", the values are one a sequence, of this one alone: the engine averages them, and
    resamples the sequences for the interval. A `statistic` is computed from the averages, in each resample anew; the
    axes name its result. `exists` marks the sequences in which a quantity exists, as the attention to an earlier copy
    of a token does where a token comes twice: means and resampled means are over the other sequences. Without "batch"
    values are of all sequences together: unless they are `means`, the probe is given the whole batch at once.

    Args:
        axes: names, separated by spaces, as in "batch layer head".
        values: a tensor with these axes; with a statistic, the tensor that it is a function of, batch first.
        quantity: name of the values, as in "mass" or "kl".
        labels: names of the entries of each axis, except layer and head.
        statistic: a function of the batch means; None is the mean itself.
        means: whether values without "batch" are means over the sequences, which slices of a large batch add up to.
        exists: which values exist, batch first, sizes of 1 for axes that make no difference; None for all. A quantity
            that exists in no sequence has no row.
        margin: by how much an interval is wider on either side than resamples make it, since values of some sequences
            are estimates; of the axes behind the batch.
        taken: how many sequences these means then are of, in place of all.

    Raises:
        TypeError: the values are no tensor.
        ValueError: the axes do not fit the values, `exists` is of another size, or a statistic has no batch and no
            means to be computed from.

    >>> Reading("layer head", torch.zeros(2, 3), "mass")
    Reading(mass: layer=2 head=3)
    """

    axes: str
    values: Tensor
    quantity: str
    labels: Mapping[str, Sequence[str | int]] = dataclasses.field(default_factory=dict)
    statistic: Statistic | None = None
    means: bool = False
    exists: Bool[Tensor, "batch *axes"] | None = None
    margin: Float[Tensor, "*axes"] | None = None
    taken: Int[Tensor, "*axes"] | None = None

    def __post_init__(self) -> None:
        names = self.axes.split()
        if not isinstance(self.values, Tensor):
            raise TypeError(f"the values of {self.quantity!r} are a torch tensor, got {type(self.values).__name__}")
        if self.exists is not None and not (self.per_sequence and _fits(self.exists.shape, self.values.shape)):
            raise ValueError(
                f"`exists` is of values [batch ...], of their sizes or 1; got {tuple(self.exists.shape)} of "
                f"{tuple(self.values.shape)}, axes {self.axes!r}"
            )
        if taken := [name for name in names if name in NO_AXES or names.count(name) > 1]:
            raise ValueError(f"an axis is called {taken[0]!r}, as a column or another axis is: rename it")
        for name, entries in self.labels.items():
            if len(set(entries)) < len(entries):
                raise ValueError(
                    f"axis {name!r} of {self.quantity!r} has a label twice: {', '.join(map(str, entries))}"
                )
        if self.statistic is not None and not self.per_sequence and not self.means:
            raise ValueError(f'a statistic is of batch means: axes must start with "batch", got {self.axes!r}')
        if self.statistic is None:
            check_axes(self.axes, self.values.shape, self.quantity, self.labels)
        else:
            check_labels(self.axes.split(), self.quantity, self.labels)  # of the statistic's result

    @property
    def per_sequence(self) -> bool:
        """Whether the values are one a sequence."""
        return self.axes.split()[:1] == ["batch"]

    def __repr__(self) -> str:
        sizes = " ".join(f"{name}={size}" for name, size in zip(self.axes.split(), self.values.shape, strict=False))
        return f"Reading({self.quantity}: {sizes})"


def _fits(sizes: Sequence[int], values: Sequence[int]) -> bool:
    """Whether a tensor has one entry for each sequence, and for every other axis one for each value or one for all."""
    pairs = list(zip(sizes, values, strict=False))
    return len(sizes) == len(values) and sizes[0] == values[0] and all(size in (1, value) for size, value in pairs)


@dataclasses.dataclass(frozen=True, eq=False)
class View:
    """One checkpoint, on all sequences of the batch or on some of them, as a probe sees it. Nothing may be changed.

    Where the batch does not fit into memory a probe is given slices of it, one after the other, and what it reads of
    each sequence is put together. A probe that compares sequences with each other, as with their mean, says
    `of_all_sequences = True`, and is given all of them at once. For your own probe that does not say so, this is tried
    on a few sequences at each checkpoint.

    Args:
        step: optimiser updates so far.
        architecture: of the model.
        batch: the fixed probe batch, or a slice of its sequences.
        log_probs: of the clean pass, in nats; of a regression, the outputs themselves. NaN where no probe of the
            measurement reads them.
        activations: the clean pass's, by hook name; those that the probe lists in `hooks`.
        edited: the passes that the probe lists in `edits`, each run when it is asked for.
        weights: the checkpoint's parameters by name.
        circuits: its weights as circuits, for an `AbstractCircuitProbe`.
        attributed: the estimates that the probe lists in `attributions`, nats, each computed when it is asked for.
        find_readout: reads the final norm and unembedding, for a probe whose hooks are `residual_hooks_of`.
        others: of prompts, the same checkpoint on those that go with them, as "corrupted", run when they are asked for.
        rows: `scored_log_probs` where the others of `log_probs` are not computed.
    """

    step: int
    architecture: Architecture
    batch: Batch
    log_probs: Float[Tensor, "batch pos token"]
    activations: Mapping[str, Tensor]
    edited: Mapping[Edit, EditedPass]
    weights: Mapping[str, Tensor]
    circuits: Circuits | None = None
    attributed: Mapping[Attribution, Float[Tensor, "batch layer head *edge"]] = dataclasses.field(default_factory=dict)
    find_readout: Callable[[], Any] | None = None
    others: Mapping[str, "View"] = dataclasses.field(default_factory=dict)
    rows: Float[Tensor, "scored token"] | None = None

    @cached_property
    def readout(self) -> Any:
        """The way from the residual stream to the predictions, checked to give the model's own: a `models.Readout`."""
        if self.find_readout is None:
            raise ValueError("a view made by hand has no model to read out: give it a readout, by `find_readout`")
        return self.find_readout()

    @property
    def prompts(self) -> Prompts:
        """The batch as prompts with answers; any other one is refused."""
        if not isinstance(self.batch, Prompts):
            raise ValueError("the batch has no right and wrong answers: measure on --pairs FILE, or Batch.from_pairs")
        return self.batch

    @property
    def answer_log_probs(self) -> Float[Tensor, "batch token"]:
        """The log-probabilities (nats) that prompts end in."""
        return self.scored_log_probs[self.prompts.at(END)[self.batch.scored]]

    @cached_property
    def scored_log_probs(self) -> Float[Tensor, "scored token"]:
        """The scored ones of `log_probs`, in the order of `batch.scored`."""
        return self.log_probs[self.batch.scored] if self.rows is None else self.rows

    @cached_property
    def loss(self) -> Float[Tensor, " batch"]:
        """The mean loss of each sequence's scored predictions, nats; of a regression half the squared error."""
        scored = self.batch.scored
        return mean_of_rows(prediction_loss(self.scored_log_probs, self.batch.targets[scored]), scored)

    def effects(self, edits: Sequence[Edit]) -> Effect:
        """Return the effects of the edits that the probe lists in `edits`, one a column."""
        passes = [self.edited[edit] for edit in edits]
        changes = [each.loss - self.loss for each in passes]
        return Effect(torch.stack(changes, 1), torch.stack([each.kl for each in passes], 1))

    @cached_property
    def patterns(self) -> Float[Tensor, "batch layer head query key"]:
        """The attention patterns of all layers, for an `AbstractPatternProbe`."""
        return torch.stack(self._patterns(), dim=1)

    @cached_property
    def queries(self) -> ScoredQueries:
        """The attention of the queries that are scored, for an `AbstractPatternProbe` that averages over them."""
        return ScoredQueries.of(self.patterns, self.batch.scored)

    @cached_property
    def masses(self) -> Mapping[str, Float[Tensor, "batch layer head query"]]:
        """The attention that falls on each relation's keys, in [0, 1], for an `AbstractPatternProbe`."""
        names = list(self.batch.relations)
        if not names:
            return {}
        relations = torch.stack([self.batch.relations[name] for name in names], 1)
        layers = [mass_by_query(pattern, relations) for pattern in self._patterns()]
        return dict(zip(names, torch.stack(layers, 2).unbind(1), strict=True))

    def _patterns(self) -> list[Float[Tensor, "batch head query key"]]:
        """Return the patterns of each layer; a probe that did not ask for them is refused."""
        try:
            return [self.activations[name] for name in pattern_hooks(self.architecture)]
        except KeyError as hook:
            raise ValueError(
                f"the probe did not ask for {hook}: make it an AbstractPatternProbe, which does so for all layers"
            ) from None

    def having(self, relations: Sequence[str]) -> Bool[Tensor, "batch 1 1 relation"] | None:
        """Return which sequences each relation starts in, as `Reading.exists` takes it; None where all do in all."""
        starts = torch.stack([self.batch.starts(name) for name in relations], -1)
        return None if bool(starts.all()) else starts[:, None, None]

    @cached_property
    def offsets(self) -> Float[Tensor, "batch layer head offset"]:
        """The attention at each offset = query - key, over the scored queries, for an `AbstractPatternProbe`."""
        return offset_profile(self.queries, self.patterns.shape[-1] - 1)


def pattern_hooks(architecture: Architecture) -> tuple[str, ...]:
    """Name the attention pattern hook of every layer."""
    return hooks_of("attn.hook_pattern", architecture.n_layers)


class AbstractProbe(abc.ABC):
    """A probe. A leaf is a frozen dataclass of its parameters; it is pure: model and hooks stay unchanged.

    A parameter out of its range, a name that the batch does not have, and a batch or a model that lacks what a probe
    reads are a ValueError, which names them.
    """

    quantities: ClassVar[Mapping[str, Quantity]] = {}
    """A description of each quantity of `read` and `across`; one without is shown by its name."""

    of_all_sequences: ClassVar[bool] = False
    """Whether it is given the whole batch at once from the start: what it reads, or refuses, is of no slice.

    To be set where values of a sequence depend on the other sequences, as on their mean or their largest value.
    """

    reads_predictions: ClassVar[bool] = True
    """Whether it reads `view.log_probs` or `view.loss`; where no probe of a measurement does, they are not computed."""

    reads_unscored: ClassVar[bool] = True
    """Whether it reads `view.log_probs`, in place of `view.scored_log_probs` and `view.loss` alone; where no probe of a
    measurement does, predictions at positions that are not scored are not computed.
    """

    checkpoints: frozenset[int] | None = None
    """The steps that it is measured at, as `at` sets them; None for all."""

    def at(self, steps: Iterable[int]) -> "AbstractProbe":
        """Return the probe as one that is measured at these steps of a series alone: elsewhere it has no rows."""
        chosen = copy.copy(self)
        object.__setattr__(chosen, "checkpoints", frozenset(map(int, steps)))  # of a frozen dataclass, no parameter
        return chosen

    def due(self, steps: Iterable[int]) -> list[int]:
        """Return those of some steps that it is measured at."""
        return [step for step in steps if self.checkpoints is None or step in self.checkpoints]

    def whole(self, steps: Sequence[int]) -> Sequence[int]:
        """Choose the checkpoints of a series that are measured whole, and before the others: all by default."""
        return steps

    def hooks(self, architecture: Architecture) -> Iterable[str]:
        """Name the activations that it reads; none by default."""
        return ()

    def edits(self, architecture: Architecture) -> Iterable[Edit]:
        """List the edited passes that it needs; none by default.

        Raises:
            ValueError: an edit that the model does not allow, before any pass is run.
        """
        return ()

    def attributions(self, architecture: Architecture) -> Iterable[Attribution]:
        """List the estimates from gradients that it needs; none by default, and then no gradient is computed."""
        return ()

    @abc.abstractmethod
    def read(self, view: View) -> list[Reading]:
        """Return the readings of one checkpoint.

        Raises:
            ValueError: the batch or the model lacks what the probe needs; the message names it.
        """

    def further_readings(self, readings: Sequence[Reading], effects: Effects) -> list[Reading]:
        """Return its readings of all sequences with those that further edits add, as of heads that stand out."""
        return list(readings)

    def across(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return further rows from its own rows over all checkpoints; none by default."""
        return table.iloc[:0]


class AbstractPatternProbe(AbstractProbe):
    """A probe that reads the attention patterns of all layers: `view.patterns` holds them."""

    def hooks(self, architecture: Architecture) -> Iterable[str]:
        """Name the patterns of all layers."""
        return pattern_hooks(architecture)


class AbstractCircuitProbe(AbstractProbe):
    """A probe that reads weights only."""

    reads_predictions = False

    def read(self, view: View) -> list[Reading]:
        """Return the readings of one checkpoint's weights; a view without circuits is refused."""
        if view.circuits is None:
            raise ValueError(f"{type(self).__name__} reads weights as circuits, which this model does not have")
        return self.read_circuits(view.circuits)

    @abc.abstractmethod
    def read_circuits(self, circuits: Circuits) -> list[Reading]:
        """Return the readings of the circuits; without intervals, since no batch is involved."""


def example_view(
    patterns: Sequence[Any] = (),
    *,
    probs: Sequence[Any] = (),
    tokens: Sequence[int] = (),
    targets: Sequence[int] = (),
    scored: Sequence[bool] = (),
    relations: Mapping[str, Sequence[Any]] | None = None,
    references: Mapping[str, Sequence[Any]] | None = None,
    edited: Mapping[Edit, Sequence[Any]] | None = None,
    activations: Mapping[str, Sequence[Any]] | None = None,
) -> View:
    """Make the view of one sequence and one layer from plain numbers, to test a probe by hand.

    Args:
        patterns, probs: attention [head query key], and predictions [pos token], uniform if not given.
        tokens, targets, scored: 0, 1, ..., the tokens themselves, and all predictions, if not given.
        relations: name -> [query key].
        references, edited: name, or edit, -> probabilities [pos token].
        activations: hook name -> values without the batch axis.

    >>> view = example_view([[[1, 0], [0.25, 0.75]]], tokens=[4, 2])
    >>> view.patterns.shape, view.batch.tokens, view.log_probs.shape
    (torch.Size([1, 1, 1, 2, 2]), tensor([[4, 2]]), torch.Size([1, 2, 5]))
    """
    tokens = tokens or range(len(probs or patterns[0]))
    d_vocab = len(probs[0]) if probs else max(tokens) + 1
    sizes = {"n_layers": 1, "n_heads": len(patterns) or 1, "d_head": 1, "n_ctx": len(tokens), "d_vocab": d_vocab}
    known = {name: _one(values) for name, values in (activations or {}).items()}
    if patterns:
        known["blocks.0.attn.hook_pattern"] = _one(patterns)
    batch = Batch(
        _one(tokens).long(),
        _one(targets or tokens).long(),
        _one(scored or [True] * len(tokens)).bool(),
        {name: _one(keys).bool() for name, keys in (relations or {}).items()},
        {name: _one(distribution).log() for name, distribution in (references or {}).items()},
    )
    log_probs = _one(probs or [[1 / d_vocab] * d_vocab] * len(tokens)).log()
    clean = ScoredPredictions.of(log_probs[batch.scored], batch.targets, batch.scored)
    rows = {edit: _one(distribution).log()[batch.scored] for edit, distribution in (edited or {}).items()}
    passes = {edit: EditedPass(*clean.compare([each]), partial(torch.clone, each)) for edit, each in rows.items()}
    return View(0, Architecture({**sizes, "d_model": sizes["n_heads"]}), batch, log_probs, known, passes, {})


def _one(values: Sequence[Any]) -> Tensor:
    return torch.tensor([list(values)], dtype=torch.float32)
