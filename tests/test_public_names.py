"""The public names: one list, which type checkers and the package both read, and nothing is imported before its use."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import stagewise

BLOCKS = [
    node for node in ast.parse(Path(stagewise.__file__).read_text(encoding="utf8")).body if isinstance(node, ast.If)
]
LISTED = {
    alias.name: node.module
    for block in BLOCKS
    for node in block.body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}


def test_the_package_offers_what_its_list_names() -> None:
    assert set(stagewise.__all__) == set(dir(stagewise)) == LISTED.keys()
    assert {"measure", "find_stages", "Quantity", "plot"} <= LISTED.keys()


def test_a_public_name_is_that_of_its_module() -> None:
    for name, module in LISTED.items():
        home = importlib.import_module(module or "")
        expected = importlib.import_module(f"stagewise.{name}") if home is stagewise else vars(home)[name]
        assert getattr(stagewise, name) is expected, name


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="module 'stagewise' has no attribute 'measured'"):
        stagewise.measured  # noqa: B018


def test_importing_the_package_imports_no_torch() -> None:
    code = "import sys, stagewise; stagewise.linear; assert not {'torch', 'pandas'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)
