"""The public names: one stub, which type checkers and the package both read, and nothing is imported before its use."""

import ast
import doctest
import importlib
import json
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import stagewise

STUB = Path(stagewise.__file__).with_suffix(".pyi")
ROOT = Path(__file__).parents[1]
LISTED = {
    alias.name: node.module
    for node in ast.parse(STUB.read_text(encoding="utf8")).body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}


def test_the_package_offers_what_its_stub_names() -> None:
    assert set(stagewise.__all__) == set(dir(stagewise)) == LISTED.keys()
    assert {"measure", "find_stages", "Quantity", "plot", "save_on", "StageCriteria"} <= LISTED.keys()


def test_a_public_name_is_that_of_its_module() -> None:
    for name, module in LISTED.items():
        home = importlib.import_module(f"stagewise.{module or name}")
        assert getattr(stagewise, name) is (vars(home)[name] if module else home), name


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match=r"stagewise has no 'zebra'$"):
        stagewise.zebra  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("mesure", "did you mean measure?"),
        ("find_stage", "did you mean find_stages?"),
        ("MarkovChains", "did you mean MarkovChain?"),
        ("linear", "it is stagewise.schedules.linear"),
        ("HeadAblation", "it is stagewise.probes.HeadAblation"),
        ("AblateHead", "it is stagewise.intervention.AblateHead"),
    ],
)
def test_a_near_name_is_answered_with_the_one_that_is_there(name: str, answer: str) -> None:
    with pytest.raises(AttributeError, match=rf"stagewise has no '{name}' \({re.escape(answer)}\)$"):
        getattr(stagewise, name)


def names_in(code: str) -> set[str]:
    """The names that code uses or imports."""
    nodes = [*ast.walk(ast.parse(code))]
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    used |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return used | {alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}


def codes_that_run() -> Iterator[str]:
    """The code of pages, of their sessions, of examples and notebooks."""
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        text = page.read_text(encoding="utf8")
        yield from re.findall(r"^```py(?:thon)?\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        for session in re.findall(r"^```pycon\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
            yield "".join(example.source for example in doctest.DocTestParser().get_examples(session))
    yield from (path.read_text(encoding="utf8") for path in (ROOT / "examples").glob("*.py"))
    for path in (ROOT / "docs" / "notebooks").glob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf8"))["cells"]
        lines = [line for cell in cells if cell["cell_type"] == "code" for line in "".join(cell["source"]).splitlines()]
        yield "\n".join(line for line in lines if not line.startswith("%"))


def test_every_public_name_has_an_example_that_runs() -> None:
    used = set[str]().union(*map(names_in, codes_that_run()))
    functions = {name: getattr(stagewise, name) for name, module in LISTED.items() if module}
    assert {
        name for name, value in functions.items() if name not in used and ">>>" not in (value.__doc__ or "")
    } == set()


def test_the_names_of_other_rooms_are_there() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf8")
    cells = [row.split("|")[3] for row in re.findall(r"^\| \w+: .*", page, re.MULTILINE)]
    for name in (name for cell in cells for name in re.findall(r"`([\w.]+)`", cell)):
        assert pkgutil.resolve_name(name if name.startswith("stagewise") else f"stagewise.{name}")


def test_the_reference_lists_every_name_by_what_one_wants_to_do() -> None:
    table = re.findall(r"^\| \w+: .*", (ROOT / "docs" / "api.md").read_text(encoding="utf8"), re.MULTILINE)
    names = [name for row in table for name in re.findall(r"`(\w+)`", row.split("|")[2])]
    assert sorted(names) == sorted(name for name, module in LISTED.items() if module)
