"""Data import nothing; what a person names comes from the current folder, behind everything that is installed."""

import importlib
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Executor
from pathlib import Path

import pytest

import stagewise
from stagewise import own_code
from stagewise.own_code import allow, import_named, known, named
from stagewise.processes import worker_pool

MODULES = ("named_here", "beside_it", "sentry")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a module, what it imports, and a file with the name of a package that is not installed."""
    (tmp_path / "named_here.py").write_text(
        "import beside_it\ndef late(): import sentry\ndef one(): return beside_it.ONE"
    )
    (tmp_path / "beside_it.py").write_text("ONE = 1")
    (tmp_path / "sentry.py").write_text("open('written', 'w')")
    (tmp_path / "numpy.py").write_text("open('written', 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(own_code, "_NAMED", {})
    yield tmp_path
    for module in MODULES:
        sys.modules.pop(module, None)


@pytest.mark.parametrize("name", ["named_here:one", "sentry:X", "this:s", "xml.sax.handler:version", "a.b:c", "x:y"])
def test_data_import_nothing(here: Path, name: str) -> None:
    with pytest.raises(ValueError, match=f"a word, which is not imported here, .* allow it with --task {name} "):
        known(name, "a word")
    assert name.partition(":")[0] not in sys.modules
    assert not (here / "written").exists()


def test_what_a_person_has_named_or_imported_is_known(here: Path) -> None:
    function = import_named("named_here:one")
    assert known("named_here:one", "") is function
    assert function() == 1  # with what it imports beside it
    assert known("json:dumps", "") is not None
    assert known("stagewise.analysis:run", "") is not None
    assert {"named_here", "json"} == {*named()}


def test_nothing_installed_is_hidden_by_a_file_here_nor_completed(here: Path) -> None:
    import_named("named_here:one")
    for module in ("numpy", "json"):
        assert Path(str(importlib.import_module(module).__file__)).parent != here
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("sentry")  # as an installed package would that can do without it
    assert not (here / "written").exists()


def _one(_: int) -> object:
    return known("named_here:one", "")()


def test_workers_may_import_what_their_parent_may(here: Path) -> None:
    import_named("named_here:one")
    with worker_pool(1, models=False) as pool:
        assert isinstance(pool, Executor)
        assert pool.submit(_one, 0).result() == 1


def test_a_module_without_the_name_has_none_and_its_own_lookup_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(vars(stagewise), "measure", raising=False)  # which the lookup leaves there
    assert known("stagewise:measure", "") is None  # whose __getattr__ would import it
    allow({})


@pytest.mark.parametrize(
    "command",
    [["-m", "stagewise"], pytest.param(["-m", "stagewise", "audit", "."], marks=pytest.mark.slow)],
    ids=" ".join,
)
def test_python_m_does_not_take_the_folder_it_runs_in(tmp_path: Path, command: list[str]) -> None:
    for name in ("torch", "numpy", "typer", "re", "pathlib"):
        (tmp_path / f"{name}.py").write_text("open('written', 'w')")
    ended = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 2, ended.stderr
    assert not (tmp_path / "written").exists()


def test_a_file_is_named_by_its_path_and_what_it_holds_is_known_by_its_module(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "elsewhere").mkdir()
    monkeypatch.chdir(here / "elsewhere")
    function = import_named("../named_here.py:one")
    assert function() == 1
    assert known("named_here:one", "a word") is function
    with pytest.raises(ModuleNotFoundError, match=r"there is no file ../nothing.py"):
        import_named("../nothing.py:one")
    with pytest.raises(ImportError, match=r"../numpy.py has the name of the module in .*numpy.*: rename it"):
        import_named("../numpy.py:one")
    assert not (here / "elsewhere" / "written").exists()
