"""All that decides a run: task, architecture and training plan, and their record in run.json."""

import dataclasses
import importlib
import operator
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from stagewise.architecture import Architecture
from stagewise.init import AbstractInit, GaussianInit, LinearInit, OneHotInit, WithoutPositions
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

    The type of a class from outside this library is "module:Class", so that `rebuild` finds it again.

    Raises:
        ValueError: a value that JSON has no word for, a torch.dtype for example.

    >>> describe(Seeds(1, 2, 3))
    {'type': 'Seeds', 'init': 1, 'data': 2, 'evaluation': 3}
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: describe(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"type": type_name(type(value)), **fields}
    if isinstance(value, Mapping):
        return {str(key): describe(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [describe(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"a recipe is plain data, so that run.json can hold it: {value!r} is a {type(value).__name__}")


def type_name(cls: type) -> str:
    """Return what a class is called in run.json: its name, and of one from outside this library its module too.

    >>> type_name(Seeds)
    'Seeds'
    """
    module = cls.__module__
    if module.split(".")[0] == "stagewise":
        return cls.__name__
    return f"{_script() if module in ('__main__', '__mp_main__') else module}:{cls.__name__}"


def _script() -> str:
    """Return the module name of the running script, by which other processes can import it."""
    file = getattr(sys.modules["__main__"], "__file__", None)
    return "__main__" if file is None else Path(file).stem


def rebuild(described: Any, classes: Iterable[type] = ()) -> Any:
    """Return what `describe` was given.

    Args:
        described: plain data.
        classes: the tasks (and initialisations) that may occur in it; one from outside this library, "module:Class", is
            imported where it is not among them.

    Raises:
        ValueError: a type is not among them and cannot be imported; the message names it.

    >>> rebuild(describe(Seeds(1, 2, 3)))
    Seeds(init=1, data=2, evaluation=3)
    """
    own = (Recipe, Architecture, TrainPlan, Seeds, GaussianInit, LinearInit, OneHotInit, WithoutPositions)
    return _rebuild(described, {type_name(cls): cls for cls in (*own, *classes)})


def _rebuild(described: Any, known: Mapping[str, type]) -> Any:
    if isinstance(described, list | tuple):
        return tuple(_rebuild(item, known) for item in described)
    if not isinstance(described, dict):
        return described
    fields = {key: _rebuild(item, known) for key, item in described.items() if key != "type"}
    return _class(str(described["type"]), known)(**fields) if "type" in described else fields


def _class(name: str, known: Mapping[str, type]) -> type:
    module, separator, cls = name.partition(":")
    if name in known:
        return known[name]
    if same := [each for each in known.values() if separator and each.__name__ == cls]:
        return same[0]  # handed over from a module that has moved, or that runs as a script
    if not separator:
        raise ValueError(
            f"the run was made with {name}, which is not known here; known: {', '.join(sorted(known))}. "
            "Hand the class over in `classes`"
        )
    return load_class(name, (AbstractTask, AbstractInit), f"the run was made with {cls} of the module {module}")


def load_class(name: str, kinds: tuple[type, ...], purpose: str) -> type:
    """Import a class by "module:Class".

    Args:
        name: of the module and the class in it.
        kinds: what it must be a subclass of, one of them.
        purpose: for the message of an error, what the class is needed for.

    Raises:
        ValueError: there is no such module or class, or the class is none of the kinds.
    """
    module, _, attribute = name.partition(":")
    try:
        # A script that runs would be imported a second time under its own name.
        loaded = sys.modules["__main__"] if module == _script() else importlib.import_module(module)
    except ImportError as reason:
        raise ValueError(
            f"{purpose}, which cannot be imported here ({reason}). Run this where {module}.py lies, or hand the class "
            f"over: --task module:{attribute} on the command line, `classes` in Python"
        ) from reason
    cls = getattr(loaded, attribute, None)
    if not (isinstance(cls, type) and issubclass(cls, kinds)):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise ValueError(f"{purpose}: expected a subclass of {names} called {attribute} in {module}, got {cls!r}")
    return cls


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
