"""Packaging: what the wheel holds is what the folders hold."""

import importlib
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))
SETUPTOOLS = PROJECT["tool"]["setuptools"]


def folder_of(package: str) -> Path:
    """The folder of a package by setuptools's rule: the longest entry of package-dir that it begins with."""
    mapping: dict[str, str] = SETUPTOOLS["package-dir"]
    known = max((entry for entry in mapping if package == entry or package.startswith(entry + ".")), key=len)
    return ROOT / mapping[known] / package[len(known) :].lstrip(".").replace(".", "/")


def packages_there() -> set[str]:
    """Every folder with an __init__.py, by import name; symbolic links are not followed."""
    found = set()
    for top, package in (
        ("stagewise", "stagewise"),
        ("papers", "stagewise.papers"),
        ("probes", "stagewise.probes"),
        ("tasks", "stagewise.tasks"),
    ):
        for folder, _, files in os.walk(ROOT / top):
            if "__init__.py" in files:
                found.add(".".join((package, *Path(folder).relative_to(ROOT / top).parts)))
    return found


def test_the_list_of_packages_is_that_of_the_folders() -> None:
    assert sorted(SETUPTOOLS["packages"]) == sorted(packages_there())
    assert len(set(SETUPTOOLS["packages"])) == len(SETUPTOOLS["packages"])


@pytest.mark.parametrize("package", SETUPTOOLS["packages"])
def test_every_package_is_where_the_mapping_says(package: str) -> None:
    assert (folder_of(package) / "__init__.py").is_file()


def test_no_folder_of_python_files_is_forgotten() -> None:
    with_code = {
        path.parent for top in ("stagewise", "papers", "probes", "tasks") for path in (ROOT / top).rglob("*.py")
    }
    folders = {folder_of(package).resolve() for package in SETUPTOOLS["packages"]}
    assert {folder.resolve() for folder in with_code} <= folders


@pytest.mark.parametrize("name", ["papers", "probes", "tasks"])
def test_the_links_show_the_folders_under_their_import_names(name: str) -> None:
    link = ROOT / "stagewise" / name
    assert link.is_symlink()
    assert os.readlink(link) == f"../{name}"
    assert (link / "__init__.py").samefile(ROOT / name / "__init__.py")


@pytest.mark.parametrize("name", SETUPTOOLS["package-data"]["stagewise"])
def test_every_data_file_is_there(name: str) -> None:
    assert (ROOT / "stagewise" / name).is_file()


def test_types_are_published() -> None:
    assert "py.typed" in SETUPTOOLS["package-data"]["stagewise"]


@pytest.mark.parametrize("line", ["CITATION.cff version: {}", "CHANGELOG.md ## {} (", "docs/stable.md stagewise {} is"])
def test_every_page_has_the_version_of_the_package(line: str) -> None:
    page, _, words = line.partition(" ")
    assert words.format(PROJECT["project"]["version"]) in (ROOT / page).read_text(encoding="utf8")


def test_every_data_file_beside_the_code_is_packaged() -> None:
    data = {
        path.relative_to(ROOT / "stagewise").as_posix()
        for path in (ROOT / "stagewise").rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    }
    assert data == set(SETUPTOOLS["package-data"]["stagewise"])


def test_every_module_imports_under_its_own_name() -> None:
    names = [
        ".".join((package, path.stem))
        for package in SETUPTOOLS["packages"]
        for path in folder_of(package).glob("*.py")
        if path.stem not in ("__init__", "__main__")
    ]
    for name in names:
        module = importlib.import_module(name)
        assert module.__name__ == name
        assert ROOT in Path(str(module.__file__)).parents


def test_the_bare_names_are_not_installed() -> None:
    code = "import importlib.util as u; assert not u.find_spec('probes') and not u.find_spec('tasks')"
    subprocess.run([sys.executable, "-I", "-c", code], check=True)


def test_the_command_points_at_a_module() -> None:
    module, _, function = PROJECT["project"]["scripts"]["stagewise"].partition(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_the_run_time_type_check_of_the_tests_is_on_where_it_is_asked_for(pytestconfig: pytest.Config) -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf8")
    assert script.count("make test CHECKED=1\n") == script.count("make test-tl4 CHECKED=1\n") == 1
    if not pytestconfig.getoption("--jaxtyping-packages"):
        pytest.skip("without --jaxtyping-packages: `make test CHECKED=1`")
    import torch

    from stagewise.loss import cross_entropy

    with pytest.raises(TypeError, match=r"Type-check error whilst checking the parameters of stagewise.loss"):
        cross_entropy(torch.zeros(2, 3, 4), torch.zeros(2, 5, dtype=torch.int64))
