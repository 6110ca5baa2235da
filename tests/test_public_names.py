"""The public names: one stub, which type checkers and the package both read, and nothing is imported before its use."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import stagewise

STUB = Path(stagewise.__file__).with_suffix(".pyi")
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
    with pytest.raises(AttributeError, match="No stagewise attribute measured"):
        stagewise.measured  # type: ignore[attr-defined]  # noqa: B018


def test_importing_the_package_imports_no_torch() -> None:
    code = "import sys, stagewise; stagewise.linear; assert not {'torch', 'pandas'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)
