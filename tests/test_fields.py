"""Fields of every part of a recipe: of their types and ranges."""

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import pytest

from stagewise import tasks
from stagewise.architectures import OneHotInit, minimal
from stagewise.cli._names import TASKS
from stagewise.fields import checked, field_types
from stagewise.init import AbstractInit, GaussianInit, WithoutPositions
from stagewise.intervention import AblateHead, RestrictContext
from stagewise.papers.linear_init import LinearInit
from stagewise.papers.position_heads import PositionHeadsInit
from stagewise.plan import ClampHead, Seeds, TrainPlan
from stagewise.recipe import Recipe
from stagewise.tasks import MarkovChain
from stagewise.value_schedules import Ramp, Shuffled, Steps

NEEDED: dict[str, dict[str, Any]] = {
    "Text": {"tokenizer": "tokenizer.json", "text": "a text"},
    "Tokens": {"file": "tokens.pt"},
    "Windows": {"task": MarkovChain(), "context": 2},
}
"""Arguments of the tasks that need some."""

PARTS: dict[str, Any] = {
    "Recipe": Recipe(MarkovChain(), minimal(24, 21)),
    "Architecture": minimal(5, 4),
    "TrainPlan": TrainPlan(),
    "Seeds": Seeds(),
    "RestrictContext": RestrictContext(2),
    "AblateHead": AblateHead(0, 0),
    "ClampHead": ClampHead(0, 0, 1),
    **{type(each).__name__: each for each in (Ramp(0, 1, 2, 3), Steps((0, 1), (2,)), Shuffled(0, 9))},
    **{cls.__name__: cls() for cls in (GaussianInit, LinearInit, OneHotInit, PositionHeadsInit, WithoutPositions)},
    **{cls.__name__: cls(**NEEDED.get(cls.__name__, {})) for cls in (getattr(tasks, name) for name in TASKS.values())},
}
"""Every dataclass that `--set` reaches, and the edits."""

ODD: list[Any] = [
    object(),
    "abc",
    "",
    None,
    True,
    1.5,
    -1.5,
    math.inf,
    -math.inf,
    math.nan,
    0,
    -1,
    3,
    10**400,
    -(10**400),
]
ODD += [(), (1, "2"), (None,), (-1,), (0, 0), [2], {}, {"a": "b"}, {"a": math.nan}, frozenset({-1}), np.int64(-1), b"x"]


def rebuilt(part: Any, name: str, value: Any) -> Any:
    """Build a part with another value of a field: beside the constructor, whose types jaxtyping checks in the tests."""
    copy = object.__new__(type(part))
    for field in dataclasses.fields(part):
        object.__setattr__(copy, field.name, value if field.name == name else getattr(part, field.name))
    if isinstance(copy, AbstractInit):  # the architecture that it is part of checks it
        rebuilt(minimal(5, 4), "init", copy)
    else:
        copy.__post_init__()
    return copy


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_every_field_of_what_set_reaches_is_taken_or_refused_in_a_line(part: Any) -> None:
    refused = []
    for (name, hint), value in itertools.product(field_types(type(part)).items(), ODD):
        try:
            copy = rebuilt(part, name, value)
        except ValueError as reason:
            refused.append(str(reason))
            continue
        assert checked(getattr(copy, name), hint, name) == getattr(copy, name)
    assert len(refused) >= len(ODD) // 2
    assert not [message for message in refused if "\n" in message]


def test_numbers_of_numpy_and_lists_become_what_run_json_holds() -> None:
    seeds, task = rebuilt(Seeds(), "init", np.int64(3)), rebuilt(MarkovChain(), "spans", [1, 1, 2])
    assert (type(seeds.init), seeds.init, task.spans) == (int, 3, (1, 1, 2))
    assert type(rebuilt(TrainPlan(), "learning_rate", 1).learning_rate) is float
