"""The table of constants: each has its reason, and no other module of the room keeps numbers of its own."""

import ast
from pathlib import Path

import pytest
import scipy

from stagewise.statistics import _constants

ROOM = Path(_constants.__file__).parent
EFFECTS = ROOM / "_effects"


def names_of(node: ast.AST) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]


def is_number(node: ast.stmt) -> bool:
    inside = list(ast.walk(node)) if isinstance(node, ast.Assign) else []
    made = any(isinstance(one, ast.Call | ast.Attribute | ast.Subscript) for one in inside)
    return not made and any(isinstance(one, ast.Constant) and isinstance(one.value, int | float) for one in inside)


@pytest.mark.parametrize("path", [ROOM / "_constants.py", *sorted(EFFECTS.glob("*.py"))], ids=lambda path: path.stem)
def test_each_constant_is_followed_by_what_it_decides(path: Path) -> None:
    body, whole = ast.parse(path.read_text(encoding="utf8")).body, path.parent == ROOM
    undocumented = [
        names_of(node)
        for node, after in zip(body, [*body[1:], ast.Pass()], strict=True)
        if (is_number(node) or (whole and isinstance(node, ast.Assign))) and not isinstance(after, ast.Expr)
    ]
    assert undocumented == []


@pytest.mark.parametrize("path", sorted(ROOM.glob("*.py")), ids=lambda path: path.stem)
def test_no_other_module_keeps_numbers_that_decide(path: Path) -> None:
    if path.stem != "_constants":
        assert [names_of(node) for node in ast.parse(path.read_text(encoding="utf8")).body if is_number(node)] == []


def test_each_number_of_the_model_is_followed_by_what_it_decides() -> None:
    body = ast.parse((EFFECTS / "_settings.py").read_text(encoding="utf8")).body
    (settings,) = (node.body for node in body if isinstance(node, ast.ClassDef))
    fields = zip(settings, [*settings[1:], ast.Pass()], strict=True)
    assert all(isinstance(after, ast.Expr) for node, after in fields if isinstance(node, ast.AnnAssign))


def test_the_normal_quantile_is_that_of_the_level() -> None:
    assert pytest.approx(scipy.special.ndtri((1 + _constants.LEVEL) / 2), rel=1e-15) == _constants.QUANTILE
