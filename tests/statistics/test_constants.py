"""The table of constants: each has its reason, and no other module of the room keeps numbers of its own."""

import ast
from pathlib import Path

import pytest
import scipy

from stagewise.statistics import _constants

ROOM = Path(_constants.__file__).parent
ELSEWHERE = {"PART", "WHOLE", "BACKGROUNDS", "PRODUCTS", "KEPT", "NUMBERS", "RESAMPLES"}
"""Bytes and numbers that are held at a time, which decide nothing."""

MARKERS = {"RAMP", "IN_STEPS", "RAMP_IN_STEPS", "ABRUPT"}
"""Numbers that stand for a family of shapes."""


def names_of(node: ast.AST) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]


def test_each_constant_is_followed_by_what_it_decides() -> None:
    body = ast.parse((ROOM / "_constants.py").read_text(encoding="utf8")).body
    undocumented = [
        names_of(node)
        for node, after in zip(body, [*body[1:], ast.Pass()], strict=True)
        if isinstance(node, ast.Assign) and not isinstance(after, ast.Expr)
    ]
    assert undocumented == []


@pytest.mark.parametrize("path", sorted(ROOM.rglob("*.py")), ids=lambda path: path.stem)
def test_no_other_module_keeps_numbers_that_decide(path: Path) -> None:
    if path.stem == "_constants":
        return
    own = set[str]()
    for node in ast.parse(path.read_text(encoding="utf8")).body:
        inside = list(ast.walk(node)) if isinstance(node, ast.Assign) else []
        made = any(isinstance(one, ast.Call | ast.Attribute) for one in inside)
        if not made and any(isinstance(one, ast.Constant) and isinstance(one.value, int | float) for one in inside):
            own |= set(names_of(node))
    assert own <= ELSEWHERE | MARKERS


def test_the_normal_quantile_is_that_of_the_level() -> None:
    assert pytest.approx(scipy.special.ndtri((1 + _constants.LEVEL) / 2), rel=1e-15) == _constants.QUANTILE
