"""The public names: one stub, which type checkers and the package both read, and nothing is imported before its use."""

import ast
import importlib
import re
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
    assert {"measure", "find_stages", "Quantity", "plot", "save_on", "Sampler"} <= LISTED.keys()


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
    ],
)
def test_a_near_name_is_answered_with_the_one_that_is_there(name: str, answer: str) -> None:
    with pytest.raises(AttributeError, match=rf"stagewise has no '{name}' \({re.escape(answer)}\)$"):
        getattr(stagewise, name)


def test_the_reference_lists_every_name_by_what_one_wants_to_do() -> None:
    table = re.findall(r"^\| \w+: .*", (ROOT / "docs" / "api.md").read_text(encoding="utf8"), re.MULTILINE)
    names = [name for row in table for name in re.findall(r"`(\w+)`", row.split("|")[2])]
    assert sorted(names) == sorted(name for name, module in LISTED.items() if module)
