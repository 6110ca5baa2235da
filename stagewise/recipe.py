"""All that decides a run: task, architecture and training plan, and their record in run.json."""

import dataclasses
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType
from typing import Any, NamedTuple

from stagewise.architecture import Architecture
from stagewise.architectures import OneHotInit
from stagewise.config import fields_of, how_it_ran
from stagewise.entry_points import added
from stagewise.fields import check_fields, checked, field_types
from stagewise.init import AbstractInit, GaussianInit, WithoutPositions
from stagewise.own_code import import_named, known, script
from stagewise.plain_text import instead_of
from stagewise.plan import ClampHead
from stagewise.plan import Seeds as Seeds
from stagewise.plan import TrainPlan as TrainPlan
from stagewise.task import AbstractTask, Batch
from stagewise.value_schedules import AbstractSchedule, Ramp, Shuffled, Steps

_SCHEDULED = ("learning_rate", "weight_decay", "momentum", "batch_size", "draw", "leave_out", "seeds.data")
"""Fields of a plan that may be functions of the step, beside those of the task."""

_LONG = 8
"""Entries of a list that are all written where two descriptions differ."""


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A task, an architecture and a plan: all that decides a run.

    Args:
        task: what is learned.
        architecture: an Architecture, or the config of one, as it takes it: a HookedTransformerConfig, a Hugging Face
            config, or a dict of fields. A dict or a config without d_vocab or n_ctx has those of the task.
        plan: how it is trained. Device and dtype are arguments of `train`, and the seed is `plan.seeds.init`: a line
            says so where a config holds others.
        schedules: by the path of a field, as in {"task.p": Ramp(0.8, 0.0, start=0, stop=2000)}, what it is in training
            as a function of the step. It has any field of the task, and of the plan `learning_rate` (with the entries
            of `rates` that equal it), `weight_decay`, `momentum`, `batch_size`, `draw`, `leave_out` and `seeds.data`;
            whole numbers are rounded. It is measured on the task as it stands in `task`.

    Raises:
        ValueError: a field is of another type, the model has too few positions or tokens for the task, the config
            names an initialisation of TransformerLens that is not its default, or a schedule is of a field that cannot
            change, or has a value that the field does not take.
    """

    task: AbstractTask
    architecture: Any  # what it takes; what it then has is always an Architecture
    plan: TrainPlan = dataclasses.field(default_factory=TrainPlan)
    schedules: Mapping[str, AbstractSchedule] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.architecture, Architecture) and isinstance(self.task, AbstractTask):
            object.__setattr__(self, "architecture", _architecture(self.architecture, self.task, self.plan))
        check_fields(self)
        for field, meaning in (("n_ctx", "positions"), ("d_vocab", "tokens")):
            needed, given = getattr(self.task, field), self.architecture.config[field]
            if given < needed:
                raise ValueError(
                    f"{type(self.task).__name__} needs {needed} {meaning}, the model config has {field} = {given}: "
                    f"raise {field} to {needed}, or shorten the task"
                )
        mode = self.architecture.config.get("init_mode") or "gpt2"
        if mode != "gpt2" and self.architecture.init == GaussianInit():
            raise ValueError(
                f"the model config has init_mode = {mode!r}, and weights start here from its default, 'gpt2', or from "
                "an initialisation of this library: Architecture(config, init=...)"
            )
        self._check_schedules()

    def _check_schedules(self) -> None:
        for path in self.schedules or ():
            self.field(path)
            if not path.startswith("task.") and path.removeprefix("plan.") not in _SCHEDULED:
                known = ", ".join(f"plan.{name}" for name in _SCHEDULED)
                raise ValueError(f"{path} stays as it is in training: what changes is a field of the task, or {known}")
        for step in sorted({step for each in (self.schedules or {}).values() for step in each.breakpoints()}):
            try:
                task = self.at(step).task
            except ValueError as reason:
                raise ValueError(f"schedules, at step {step}: {reason}") from reason
            if (task.d_vocab, task.n_ctx) != (self.task.d_vocab, self.task.n_ctx):
                raise ValueError(
                    f"the task has {self.task.n_ctx} positions and {self.task.d_vocab} tokens, and by its schedules "
                    f"{task.n_ctx} and {task.d_vocab} at step {step}: leave its size as it is"
                )

    def field(self, path: str) -> Any:
        """Return the value of a field by its path, as in "plan.learning_rate".

        Raises:
            ValueError: there is no such field.
        """
        part: Any = self
        for name in path.split("."):
            if name not in (fields := field_types(type(part))):
                raise ValueError(f"{path}: the recipe has no such field{instead_of(name, sorted(fields))}")
            part = getattr(part, name)
        return part

    def at(self, step: int) -> "Recipe":
        """Return the recipe of an update: the recipe with the values that schedules give their fields there."""
        if not self.schedules:
            return self
        values = {path: schedule.at(step) for path, schedule in self.schedules.items()}
        # Every update asks several times, and values seldom change: checking their fields takes longer than sampling.
        last: tuple[Any, Recipe] = vars(self).get("_last", (None, self))
        before, recipe = last
        if values != before:
            recipe = dataclasses.replace(self, schedules=None)
            for path, value in values.items():
                recipe = _replaced(recipe, path.split("."), value, path)
            object.__setattr__(self, "_last", (values, recipe))
        return recipe

    def rates(self, rate: float, step: int) -> dict[str, float]:
        """Return the rate, decay and momentum at an update of an optimiser's group, whose rate is one of the plan."""
        now = self.at(step).plan
        own = now.learning_rate if rate == self.plan.learning_rate else rate
        return {"lr": own * now.rate_factor(step), "weight_decay": now.weight_decay, "momentum": now.momentum}

    def batches(self) -> Callable[[int], Batch]:
        """Return the training data, before `plan.leave_out`: a function of the step, the same for every call."""
        drawn, stream = (self.task, self.plan.seeds.data), self.task.stream(self.plan.seeds.data)

        def batch(step: int) -> Batch:
            nonlocal drawn, stream
            task, plan = (now := self.at(step)).task, now.plan
            if drawn != (task, plan.seeds.data):  # a finite data set is drawn once for all steps with these values
                drawn, stream = (task, plan.seeds.data), task.stream(plan.seeds.data)
            return stream(step if plan.draw is None else plan.draw, plan.batch_size)

        return batch


def _replaced(part: Any, names: Sequence[str], value: Any, path: str) -> Any:
    """Return a part of a recipe with another value of a field; of a whole number the nearest one."""
    name, *rest = names
    old = getattr(part, name)
    if rest:
        value = _replaced(old, rest, value, path)
    elif type(old) is int and isinstance(value, float):
        value = round(value)
    return dataclasses.replace(part, **{name: checked(value, field_types(type(part))[name], path)})


def _architecture(config: Any, task: AbstractTask, plan: Any) -> Architecture:
    """Return the architecture of a config, with the sizes of the task where it names none."""
    fields = fields_of(config)
    if isinstance(plan, TrainPlan) and (asked := how_it_ran(config, plan.seeds.init)):
        decides = "plan.seeds.init, and `device` and `dtype` of `train`, decide that"
        warnings.warn(f"{asked} of the model config is not taken: {decides}", stacklevel=4)
    if "model_type" in fields:
        return Architecture(fields)
    if fields.get("d_vocab", -1) == -1:
        fields |= {"d_vocab": task.d_vocab, **({} if fields.get("d_vocab_out", -1) != -1 else outputs(task))}
    return Architecture({"n_ctx": task.n_ctx, **fields})


def outputs(task: AbstractTask) -> dict[str, int]:
    """Return how many numbers a regression predicts, as the field of a config; nothing for tokens."""
    targets = task.sample(1, 0).targets
    return {"d_vocab_out": targets.shape[-1]} if targets.is_floating_point() else {}


def describe(value: Any) -> Any:
    """Return a recipe, or a part of one, as plain JSON data; a dataclass becomes its fields and its type's name.

    The type of a class of an experiment, or from outside this library, is "module:Class": `rebuild` finds it again.

    Raises:
        ValueError: a value that JSON cannot hold, a torch.dtype for example.

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
    """Return the name of a class in run.json; with its module if only one place has the class.

    That is an experiment of this library, or another one.

    >>> type_name(Seeds)
    'Seeds'
    """
    module = cls.__module__
    in_catalogue = _in_catalogue(cls.__name__) == f"{module}:{cls.__name__}"
    if module.startswith("stagewise.") and (in_catalogue or not module.startswith("stagewise.papers.")):
        return cls.__name__
    return f"{script() if module in ('__main__', '__mp_main__') else module}:{cls.__name__}"


def rebuild(described: Any, classes: Iterable[type] = ()) -> Any:
    """Return the value that `describe` was given.

    Args:
        described: plain data.
        classes: the tasks (and initialisations) that may occur in it, beside those of this library and those whose
            module has been imported already: nothing is imported because data name it.

    Raises:
        ValueError: a type is none of these; the message names it, and says how to allow it.

    >>> rebuild(describe(Seeds(1, 2, 3)))
    Seeds(init=1, data=2, evaluation=3)
    """
    inits = (GaussianInit, OneHotInit, WithoutPositions)
    builtin = (Recipe, Architecture, TrainPlan, Seeds, ClampHead, Ramp, Steps, Shuffled, *inits)
    return _rebuild(described, {type_name(cls): cls for cls in (*builtin, *classes)})


def _in_catalogue(name: str) -> str | None:
    """Return the "module:Class" of a class that a package adds under its name, which is not imported for it."""
    entry = added("tasks").get(name) or added("inits").get(name)
    return entry.value if entry else None


def _rebuild(described: Any, classes: Mapping[str, type]) -> Any:
    if isinstance(described, list | tuple):
        return tuple(_rebuild(item, classes) for item in described)
    if not isinstance(described, dict):
        return described
    fields = {key: _rebuild(item, classes) for key, item in described.items() if key != "type"}
    return _class(str(described["type"]), classes)(**fields) if "type" in described else fields


def _class(name: str, classes: Mapping[str, type]) -> type:
    if name not in classes:
        name = _in_catalogue(name) or name
    module, separator, cls = name.partition(":")
    if name in classes:
        return classes[name]
    if same := [each for each in classes.values() if separator and each.__name__ == cls]:
        return same[0]  # passed from a module that has moved, or that runs as a script
    if not separator:
        raise ValueError(
            f"the run was made with {name}, which is not known here; known: {', '.join(sorted(classes))}. "
            "Pass the class in `classes`"
        )
    purpose = f"the run was made with {cls} of the module {module}"
    return _checked(known(name, purpose), name, (AbstractTask, AbstractInit), purpose)


def load_class(name: str, kinds: tuple[type, ...], purpose: str) -> type:
    """Import a class that a person names as "module:Class", installed or of the current folder, or "file.py:Class".

    Args:
        name: of the module, or the file, and the class in it.
        kinds: what it must be a subclass of, one of them.
        purpose: for the message of an error, what the class is needed for.

    Raises:
        ValueError: there is no such module or class, or the class is none of the kinds, or lacks a method of theirs.
    """
    try:
        cls = import_named(name)
    except ImportError as reason:
        raise ValueError(f"{purpose}, which cannot be imported here ({reason}). {_advice(name, reason)}") from reason
    return _checked(cls, name, kinds, purpose)


def _checked(cls: Any, name: str, kinds: tuple[type, ...], purpose: str) -> type:
    module, _, attribute = name.rpartition(":")
    if isinstance(cls, FunctionType) and FunctionType in kinds:
        return cls  # type: ignore[return-value]  # allowed by its import
    if not (isinstance(cls, type) and issubclass(cls, kinds)):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise ValueError(f"{purpose}: expected a subclass of {names} called {attribute} in {module}, got {cls!r:.200}")
    if missing := sorted(getattr(cls, "__abstractmethods__", ())):
        kind = next(kind.__name__ for kind in kinds if issubclass(cls, kind))
        raise ValueError(f"{purpose}: every {kind} defines {', '.join(missing)}, and this one does not")
    return cls


def _advice(name: str, reason: ImportError) -> str:
    """Return the remedy for a class that cannot be imported."""
    module = name.rpartition(":")[0]
    if module.endswith(".py"):
        return f"Is {module} there, and what it imports?"
    if not (isinstance(reason, ModuleNotFoundError) and module.startswith(str(reason.name))):
        return f"{module} is there, and what it imports is not: correct that"
    return f"Run this in the folder of {module}.py, or install what it belongs to"


class _Difference(NamedTuple):
    """A field, by its path, of which two descriptions have other values, as texts."""

    field: str
    requested: str
    recorded: str

    def __str__(self) -> str:
        return f"{self.field}: {self.requested} requested, {self.recorded} on disk"


def differences(expected: Any, recorded: Any, path: str = "") -> list[_Difference]:
    """List the fields in which two descriptions differ.

    >>> print(*differences({"plan": {"steps": 9}}, {"plan": {"steps": 8}}))
    plan.steps: 9 requested, 8 on disk

    Long lists are shown by their ends and number of entries:

    >>> print(*differences({"save": list(range(9))}, {"save": [0, 8]}))
    save: [0, 1, ..., 8] (9) requested, [0, 8] on disk
    """
    if isinstance(expected, dict) and isinstance(recorded, dict):
        keys = sorted(expected.keys() | recorded.keys())
        return [
            each
            for key in keys
            for each in differences(expected.get(key), recorded.get(key), f"{path}.{key}" if path else key)
        ]
    if expected == recorded:
        return []
    short = _Difference(path, _short(expected), _short(recorded))
    return [short if short.requested != short.recorded else _Difference(path, str(expected), str(recorded))]


def _short(value: Any) -> str:
    """Write the ends of a long list, as of saved steps, and how many entries it has."""
    if isinstance(value, list) and len(value) > _LONG:
        return f"[{value[0]}, {value[1]}, ..., {value[-1]}] ({len(value)})"
    return str(value)
