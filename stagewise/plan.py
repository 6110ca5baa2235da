"""How a model is trained and which steps are saved (sets joined with `|`); fields held to their types and ranges."""

import collections.abc
import dataclasses
import json
import math
import numbers
import reprlib
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

SEQUENCES = (tuple, list, collections.abc.Sequence, collections.abc.Iterable)
PLAIN = {int: "a whole number", float: "a finite number", str: "text", bool: "true or false", type(None): "null"}


@dataclasses.dataclass(frozen=True)
class Range:
    """The numbers that a field takes, written with its type: `Annotated[float, Range(0, 1)]`. Both ends are in it."""

    low: int | float
    high: int | float

    def __str__(self) -> str:
        return f"from {self.low:g} to {self.high:g}" if self.high < LARGE else f"of at least {self.low:g}"


LARGE = 2**62  # fits into 64 bits, with room to add
Count = Annotated[int, Range(1, math.inf)]
Natural = Annotated[int, Range(0, math.inf)]
NotNegative = Annotated[float, Range(0, math.inf)]


def check_fields(part: Any) -> None:
    """Hold the fields of a frozen dataclass to their types and ranges, in its `__post_init__`: before anything else.

    Lists become tuples and numbers of numpy Python's own. Every float is finite, every int within 64 bits.

    Raises:
        ValueError: the message names the field, what it takes and what came.
    """
    for name, hint in field_types(type(part)).items():
        object.__setattr__(part, name, value := checked(getattr(part, name), hint, f"{type(part).__name__}.{name}"))
        if dataclasses.is_dataclass(value) and not hasattr(value, "__post_init__"):  # as an initialisation
            check_fields(value)


def field_types(cls: type) -> dict[str, Any]:
    """Return the annotation of each field of a dataclass."""
    hints = typing.get_type_hints(cls, include_extras=True) if dataclasses.is_dataclass(cls) else {}
    return {field.name: hints[field.name] for field in (dataclasses.fields(cls) if hints else ())}


def checked(value: Any, hint: Any, key: str, *, described: bool = False) -> Any:
    """Return the value, refused where it does not fit a type.

    Args:
        value: of the field.
        hint: its annotation.
        key: what the field is called in the message.
        described: whether parts come as plain data, as `recipe.describe` gives them.
    """
    value = _plain(value, hint)
    if not _fits(value, hint, described):
        came = json.dumps(value) if value is None or isinstance(value, bool) else reprlib.repr(value)
        most = ", and at most 2^62" * (type(value) is int and value > LARGE)
        raise ValueError(f"{key}: expected {in_words(hint)}{most}, got {came}")
    return value


def _plain(value: Any, hint: Any) -> Any:
    if isinstance(value, numbers.Number) and hasattr(value, "item"):
        return value.item()  # numpy's
    kinds = (hint, *typing.get_args(hint))
    if type(value) is int and float in kinds and int not in kinds and _is_finite(value):
        return float(value)
    takes_tuples = any(typing.get_origin(each) is tuple for each in kinds)
    return tuple(value) if isinstance(value, list) and takes_tuples else value


def _fits(value: Any, hint: Any, described: bool) -> bool:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        bounds = [each for each in inner[1:] if isinstance(each, Range)]
        return _fits(value, inner[0], described) and all(each.low <= value <= each.high for each in bounds)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, each, described) for each in inner)
    if origin is Literal:
        return any(type(value) is type(each) and value == each for each in inner)
    if origin in SEQUENCES:
        kind = (tuple, list) if described or origin is tuple else collections.abc.Collection  # which can be read twice
        return isinstance(value, kind) and not isinstance(value, str) and _items_fit(value, inner, described)
    if origin is collections.abc.Mapping:
        named = isinstance(value, Mapping) and not (described and "type" in value)
        return named and all(_fits(item, inner[1], described) for item in value.values())
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and _is_finite(value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGE
    if hint in PLAIN:
        return isinstance(value, hint)
    if isinstance(hint, type) and hint is not Any:  # a part of the recipe
        return isinstance(value, Mapping) and "type" in value if described else isinstance(value, hint)
    return True


def _is_finite(value: int | float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond the largest float
        return False


def _items_fit(value: collections.abc.Collection[Any], inner: Sequence[Any], described: bool) -> bool:
    if len(inner) == 1 or inner[-1] is ...:
        return all(_fits(item, inner[0], described) for item in value)
    return len(value) == len(inner) and all(_fits(*pair, described) for pair in zip(value, inner, strict=True))


def in_words(hint: Any) -> str:
    """Return what a field takes.

    >>> in_words(tuple[int, ...] | None)
    'a list of whole numbers, or null'
    >>> in_words(Annotated[float, Range(0, 1)])
    'a finite number from 0 to 1'
    """
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return " ".join([in_words(inner[0]), *(str(each) for each in inner[1:] if isinstance(each, Range))])
    if origin in (typing.Union, types.UnionType):
        return ", or ".join(dict.fromkeys(map(in_words, inner)))
    if origin is Literal:
        return " or ".join(json.dumps(each) for each in inner)
    if origin in SEQUENCES:
        several = len(inner) == 1 or inner[-1] is ...
        items = in_words(inner[0]).removeprefix("a ") + "s" if several else " and ".join(map(in_words, inner))
        return f"a list of {items}"
    if origin is collections.abc.Mapping:
        return "an object of names and values"
    if hint in PLAIN:
        return PLAIN[hint]
    if isinstance(hint, type) and (fields := field_types(hint)):
        return f"the fields of {hint.__name__}, one by one ({', '.join(fields)})"
    return f'an object with the "type" of {getattr(hint, "__name__", hint)} and its fields'


def linear(every: int, stop: int, start: int = 0) -> frozenset[int]:
    """Return the steps start, start + every, ... below stop.

    >>> sorted(linear(10, 35) | {1, 2})
    [0, 1, 2, 10, 20, 30]
    """
    if every < 1:
        raise ValueError(f"a linear schedule needs at least one step between saves, got every={every}")
    return frozenset(range(start, stop, every))


def logarithmic(per_decade: int, stop: int, start: int = 1) -> frozenset[int]:
    """Return steps spaced evenly in log(step), `per_decade` of them in a factor of ten, from start to below stop.

    >>> sorted(logarithmic(3, 100))
    [1, 2, 5, 10, 22, 46]
    """
    if per_decade < 1 or start < 1:
        raise ValueError(f"a logarithmic schedule needs per_decade >= 1 and start >= 1, got {per_decade} and {start}")
    steps = set()
    exponent = 0
    while (step := round(start * 10 ** (exponent / per_decade))) < stop:
        steps.add(step)
        exponent += 1
    return frozenset(steps)


@dataclasses.dataclass(frozen=True)
class Seeds:
    """The three seeds of a run: initial weights, training data, evaluation data."""

    init: Natural = 0
    data: Natural = 0
    evaluation: Natural = 0

    def __post_init__(self) -> None:
        check_fields(self)


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

    def __post_init__(self) -> None:
        check_fields(self)
        save = self.save
        if save is None:
            save = linear(max(1, self.steps // 60), self.steps) | logarithmic(4, max(2, self.steps // 60))
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"clip must be positive, or None for no clipping, got {self.clip}")
        if outside := sorted(step for step in save if not 0 <= step <= self.steps):
            raise ValueError(f"saves lie between step 0 and step {self.steps} (`steps`), got {outside}")
        object.__setattr__(self, "save", tuple(sorted({0, self.steps, *map(int, save)})))

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
