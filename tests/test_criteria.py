"""The criteria: each is documented, in range, and refuses what is not."""

import ast
import dataclasses
import inspect
import itertools

import pytest

from stagewise.criteria import DEFAULT, StageCriteria

NAMES = [field.name for field in dataclasses.fields(StageCriteria)]


def test_the_defaults_are_in_range() -> None:
    assert StageCriteria() == DEFAULT


@pytest.mark.parametrize("name", NAMES)
def test_a_threshold_out_of_range_is_named_with_what_came(name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name} must be .*, got -1"):
        StageCriteria(**{name: -1})


def test_every_threshold_says_what_it_is() -> None:
    (body,) = [node.body for node in ast.parse(inspect.getsource(StageCriteria)).body if isinstance(node, ast.ClassDef)]
    documented = [
        field.target.id
        for field, text in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    ]
    assert documented == NAMES


def test_a_head_cannot_leave_above_where_it_enters() -> None:
    with pytest.raises(ValueError, match=r"no larger than it enters at, got 0\.6, 0\.5"):
        StageCriteria(leave=0.6)
