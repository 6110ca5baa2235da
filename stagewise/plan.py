"""How a model is trained, which steps are saved (sets joined with `|`), and which heads are held."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Literal

from stagewise.fields import Count, Natural, NotNegative, check_fields
from stagewise.schedules import linear, logarithmic

_STATES, SMALL = 8, 2**20
"""Parts of a run that are replayed each by itself, and the parameters of a model up to which that is the default."""


@dataclasses.dataclass(frozen=True)
class Seeds:
    """The three seeds of a run: initial weights, training data, evaluation data."""

    init: Natural = 0
    data: Natural = 0
    evaluation: Natural = 0

    def __post_init__(self) -> None:
        check_fields(self)


@dataclasses.dataclass(frozen=True)
class ClampHead:
    """A head that training holds from a step on. Up to the checkpoint of that step the run is the one without it.

    Held weights are part of the checkpoint, so that every later checkpoint is the model that was trained:

    - "out": the head writes nothing: W_O is zero, and its other weights stay as they are.
    - "weights": all its weights stay as they are.
    - "pattern": W_Q, b_Q, W_K and b_K stay as they are. In a first layer whose embeddings, norms and shared keys do not
      train this freezes the attention pattern itself; elsewhere what the head reads moves on.
    - "uniform": it attends evenly to all keys: W_Q and b_Q are zero, W_K and b_K stay as they are.
    - "relation": its attention pattern is that of a relation of the task: each query's mass lies evenly on the keys
      that the relation marks and the query sees. Where there are none, it attends as its query and key weights say;
      these, and all its others, train on. A relation that marks the same keys in every sequence, as I(1) does.
    - "kick", a control: nothing is held; the layer's W_O (W_V, where W_O does not train) is moved once, in a random
      direction, by the norm of this head's part of it.

    Keys and values that several heads share, as under grouped queries, are no one head's, and train on.

    Args:
        layer: of the head.
        head: its number.
        start: the first update that it holds for.
        kind: what is held.
        relation: of the kind "relation", its name in the task.

    Raises:
        ValueError: a negative number, an unknown kind, or a relation without its kind.

    >>> ClampHead(0, 1, start=120)
    ClampHead(layer=0, head=1, start=120, kind='out', relation=None)
    """

    layer: Natural
    head: Natural
    start: Natural
    kind: Literal["out", "weights", "pattern", "uniform", "relation", "kick"] = "out"
    relation: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if (self.kind == "relation") != (self.relation is not None):
            raise ValueError(
                'a clamp of the kind "relation" names one, and no other does, as in kind="relation", relation="I(1)"; '
                f"got kind={self.kind!r}, relation={self.relation!r}"
            )


@dataclasses.dataclass(frozen=True)
class TrainPlan:
    """How a model is trained. Steps count optimiser updates.

    Args:
        steps: number of updates.
        batch_size: sequences an update.
        optimiser: "adamw" or "sgd".
        learning_rate: the rate of every parameter that `rates` does not name; constant between warm-up and cool-down.
        warmup: first updates, over which all rates rise linearly to their values.
        cooldown: last updates, over which all rates fall linearly, towards zero.
        weight_decay: decoupled for AdamW, L2 for SGD.
        momentum: of SGD.
        clip: largest norm of the gradient; None does not clip.
        rates: separate rates by parameter name, as shell patterns ("*.W_Q"); the first match counts.
        save: the steps to save; step 0 and the last are always among them. None saves about 60 steps evenly and the
            first ones log-spaced. Build one with `linear(...) | logarithmic(...) | {40, 41}`.
        seeds: of the initial weights, the training data and the evaluation data.
        states: the saved steps whose optimiser state is kept, for a replay to start from, each up to twice as large as
            a checkpoint. None keeps those nearest to every eighth of the run, of a model of up to 2^20 parameters.
        clamps: heads that are held from a step on; None holds none.
        draw: the batch that every update takes, by its number; None takes that of its own step.
        leave_out: classes of predictions that do not count, as `probes.LossByToken` names them ("of token 7"): the loss
            is the mean of the others. None leaves out none.

    Raises:
        ValueError: a parameter is out of range.

    >>> TrainPlan(steps=10, save=frozenset({3})).save
    (0, 3, 10)
    """

    steps: Count = 900
    batch_size: Count = 512
    optimiser: Literal["adamw", "sgd"] = "adamw"
    learning_rate: NotNegative = 1e-3
    warmup: Natural = 0
    cooldown: Natural = 0
    weight_decay: NotNegative = 0.01
    momentum: NotNegative = 0.0
    clip: float | None = 1.0
    rates: Mapping[str, NotNegative] = dataclasses.field(default_factory=dict)
    save: Iterable[int] | None = None
    seeds: Seeds = Seeds()
    states: Iterable[int] | None = None
    clamps: tuple[ClampHead, ...] | None = None
    draw: Natural | None = None
    leave_out: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        save = self.save
        if save is None:
            save = linear(max(1, self.steps // 60), self.steps) | logarithmic(4, max(2, self.steps // 60))
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"clip must be positive, or None for no clipping, got {self.clip}")
        if outside := sorted(step for step in save if not 0 <= step <= self.steps):
            more = f" and {len(outside) - 3} others" if len(outside) > 3 else ""
            raise ValueError(f"saves lie between step 0 and step {self.steps} (`steps`), got {outside[:3]}{more}")
        object.__setattr__(self, "save", tuple(sorted({0, self.steps, *map(int, save)})))
        if late := [clamp for clamp in self.clamps or () if clamp.start >= self.steps]:
            raise ValueError(f"a clamp starts before step {self.steps}, the last one (`steps`), got {late[0].start}")
        if self.states is not None:
            object.__setattr__(self, "states", tuple(sorted({*map(int, self.states)})))
            if unsaved := sorted(set(self.states) - set(self.saved_steps)):
                raise ValueError(f"`states` are steps that are saved too, got {unsaved}: add them to `save`")

    def rate_factor(self, step: int) -> float:
        """Return the part of its value that a rate has at an update, counted from 0.

        >>> plan = TrainPlan(steps=10, warmup=4, cooldown=2)
        >>> [plan.rate_factor(step) for step in (0, 1, 3, 7, 8, 9)]
        [0.25, 0.5, 1.0, 1.0, 1.0, 0.5]
        """
        return min(1.0, (step + 1) / max(self.warmup, 1), (self.steps - step) / max(self.cooldown, 1))

    @property
    def saved_steps(self) -> tuple[int, ...]:
        """The steps to save, in order."""
        return tuple(self.save or ())

    def state_steps(self, parameters: int) -> tuple[int, ...]:
        """Return the steps whose optimiser state is kept, of a model of so many parameters.

        >>> TrainPlan(steps=100, save=range(0, 100, 2)).state_steps(10_000)
        (12, 24, 38, 50, 62, 74, 88)
        """
        if self.states is not None:
            return tuple(self.states)
        if parameters > SMALL:
            return ()
        marks = (self.steps * mark / _STATES for mark in range(1, _STATES))
        nearest = {min(self.saved_steps, key=lambda step: abs(step - mark)) for mark in marks}
        return tuple(sorted(nearest - {0, self.steps}))  # the first needs none, from the last nothing is trained
