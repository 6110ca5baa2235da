"""All that decides a run: task, architecture and training plan, and their record in run.json."""

import dataclasses
import operator
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from stagewise.architecture import Architecture, OneHotInit, PositionHeadsInit
from stagewise.init import GaussianInit, LinearInit, WithoutPositions
from stagewise.schedule import linear, logarithmic
from stagewise.task import AbstractTask

if TYPE_CHECKING:
    _Architecture = Architecture
else:  # what a recipe takes; what it then has is always an Architecture
    _Architecture = Architecture | Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Seeds:
    """The three seeds of a run: initial weights, training data, evaluation data."""

    init: int = 0
    data: int = 0
    evaluation: int = 0


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

    Raises:
        ValueError: a parameter is out of range.

    >>> TrainPlan(steps=10, save=frozenset({3})).save
    (0, 3, 10)
    """

    steps: int = 900
    batch_size: int = 512
    optimiser: Literal["adamw", "sgd"] = "adamw"
    learning_rate: float = 1e-3
    warmup: int = 0
    cooldown: int = 0
    weight_decay: float = 0.01
    momentum: float = 0.0
    clip: float | None = 1.0
    rates: Mapping[str, float] = dataclasses.field(default_factory=dict)
    save: Iterable[int] | None = None
    seeds: Seeds = Seeds()

    def __post_init__(self) -> None:
        if self.steps < 1 or self.batch_size < 1:
            raise ValueError(
                f"steps and batch_size must be at least 1, got steps={self.steps}, batch_size={self.batch_size}"
            )
        if self.optimiser not in ("adamw", "sgd"):
            raise ValueError(f'optimiser must be "adamw" or "sgd", got {self.optimiser!r}')
        if min(self.warmup, self.cooldown) < 0:
            raise ValueError(
                f"warmup and cooldown must not be negative, got warmup={self.warmup}, cooldown={self.cooldown}"
            )
        save = self.save
        if save is None:
            save = linear(max(1, self.steps // 60), self.steps) | logarithmic(4, max(2, self.steps // 60))
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"clip must be positive, or None for no clipping, got {self.clip}")
        outside = sorted(step for step in save if not 0 <= step <= self.steps)
        if outside:
            raise ValueError(f"saves lie between step 0 and step {self.steps} (`steps`), got {outside}")
        object.__setattr__(self, "save", tuple(sorted({0, self.steps} | {operator.index(step) for step in save})))

    def rate_factor(self, step: int) -> float:
        """Return what part of its value a rate has at an update, counted from 0.

        >>> plan = TrainPlan(steps=10, warmup=4, cooldown=2)
        >>> [plan.rate_factor(step) for step in (0, 1, 3, 7, 8, 9)]
        [0.25, 0.5, 1.0, 1.0, 1.0, 0.5]
        """
        return min(1.0, (step + 1) / max(self.warmup, 1), (self.steps - step) / max(self.cooldown, 1))

    @property
    def saved_steps(self) -> tuple[int, ...]:
        """The steps to save, in order."""
        return tuple(self.save or ())


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A task, an architecture (or just the fields of a HookedTransformerConfig) and a plan.

    Raises:
        ValueError: the model has too few positions or tokens for the task.
    """

    task: AbstractTask
    architecture: _Architecture
    plan: TrainPlan = TrainPlan()

    def __post_init__(self) -> None:
        if isinstance(self.architecture, Mapping):
            object.__setattr__(self, "architecture", Architecture(self.architecture))
        for field, meaning in (("n_ctx", "positions"), ("d_vocab", "tokens")):
            needed, there = getattr(self.task, field), self.architecture.config[field]
            if there < needed:
                raise ValueError(
                    f"{type(self.task).__name__} needs {needed} {meaning}, the model config has {field} = {there}: "
                    f"raise {field} to {needed}, or shorten the task"
                )


def describe(value: Any) -> Any:
    """Return a recipe, or a part of one, as plain JSON data; a dataclass becomes its fields and its type's name.

    Raises:
        ValueError: a value that JSON has no word for, a torch.dtype for example.

    >>> describe(Seeds(1, 2, 3))
    {'type': 'Seeds', 'init': 1, 'data': 2, 'evaluation': 3}
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: describe(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"type": type(value).__name__, **fields}
    if isinstance(value, Mapping):
        return {str(key): describe(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [describe(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"a recipe is plain data, so that run.json can hold it: {value!r} is a {type(value).__name__}")


def rebuild(described: Any, classes: Iterable[type] = ()) -> Any:
    """Return what `describe` was given. `classes` are the tasks (and own initialisations) that may occur in it.

    Raises:
        ValueError: a type is not among them; the message names it.

    >>> rebuild(describe(Seeds(1, 2, 3)))
    Seeds(init=1, data=2, evaluation=3)
    """
    inits = (GaussianInit, LinearInit, OneHotInit, PositionHeadsInit, WithoutPositions)
    own = (Recipe, Architecture, TrainPlan, Seeds, *inits)
    known: dict[str, type] = {cls.__name__: cls for cls in (*own, *classes)}
    if isinstance(described, list):
        return tuple(rebuild(item, classes) for item in described)
    if not isinstance(described, dict):
        return described
    fields = {key: rebuild(item, classes) for key, item in described.items() if key != "type"}
    if "type" not in described:
        return fields
    if described["type"] not in known:
        raise ValueError(
            f"the run was made with {described['type']}, which is not known here; known: {', '.join(sorted(known))}. "
            "Hand the class over in `classes`"
        )
    return known[described["type"]](**fields)


def differences(expected: Any, found: Any, path: str = "") -> list[str]:
    """List where two descriptions differ, one line a field.

    >>> differences({"plan": {"steps": 9}}, {"plan": {"steps": 8}})
    ['plan.steps: 9 asked for, 8 on disk']
    """
    if isinstance(expected, dict) and isinstance(found, dict):
        keys = sorted(expected.keys() | found.keys())
        return [
            line
            for key in keys
            for line in differences(expected.get(key), found.get(key), f"{path}.{key}" if path else key)
        ]
    return [] if expected == found else [f"{path}: {expected} asked for, {found} on disk"]
