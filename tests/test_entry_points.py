"""A stranger's package, installed as any other, adds a command, a probe, a task, a format and a section."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stagewise.checkpoints.run_folder import RUN, read_table

ROOT = Path(__file__).parents[1]
CODE = """
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import typer

from stagewise.checkpoints.openers import Opener
from stagewise.probe import Quantity
from stagewise.probes import AttentionEntropy
from stagewise import plot
from stagewise.reporting import section
from stagewise.tasks import MarkovChain

app = typer.Typer()


def shout(word: str) -> None:
    "Say a word aloud."
    print(word.upper())


app.command("one")(shout)
app.command("two")(shout)


class Evenness(AttentionEntropy):
    pass


@dataclass(frozen=True)
class BackwardChain(MarkovChain):
    reverse: bool = True


def read(path):
    steps = range(40)
    return pd.DataFrame({"step": steps, "loss": [2.0 if step < 20 else 1.0 for step in steps]})


doubles = Opener("a file of doubles", lambda source: str(source).endswith(".doubles"), curves=read)
noted = section("Noted", "Look here.", ["Logged"], lambda rows, stages: plot.quantity(rows, "Logged", "loss"))
"""
ENTRIES = """
[stagewise.commands]
further = further:app
run.shout = further:shout

[stagewise.probes]
Evenness = further:Evenness

[stagewise.tasks]
BackwardChain = further:BackwardChain

[stagewise.formats]
doubles = further:doubles

[stagewise.sections]
noted = further:noted
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of installed packages with that of a stranger."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "further.py").write_text(CODE)
    information = folder / "further-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: further\nVersion: 1\n")
    (information / "entry_points.txt").write_text(ENTRIES)
    return folder


def stagewise(site: Path, folder: Path, *words: str) -> str:
    environment = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}", "COLUMNS": "100"}
    command = [sys.executable, "-m", "stagewise", *words]
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_commands_stand_in_their_groups_and_run(site: Path, tmp_path: Path) -> None:
    assert "Of the package further." in stagewise(site, tmp_path, "--help")
    assert "shout" in stagewise(site, tmp_path, "run", "--help")
    assert "Say a word aloud." in stagewise(site, tmp_path, "run", "shout", "--help")
    assert (
        stagewise(site, tmp_path, "run", "shout", "word")
        == stagewise(site, tmp_path, "further", "two", "word")
        == "WORD\n"
    )


def test_help_imports_no_command_of_a_package(site: Path, tmp_path: Path) -> None:
    code = "import sys; from typer.testing import CliRunner; from stagewise.cli.app import app; "
    code += "print(CliRunner().invoke(app, ['--help']).exit_code, 'further' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}"}
    printed = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert printed.stdout == "0 False\n"


def test_a_format_is_opened_and_a_section_is_in_the_report(site: Path, tmp_path: Path) -> None:
    (tmp_path / "log.doubles").touch()
    printed = stagewise(site, tmp_path, "report", "log.doubles", "--out", "seen")
    assert "One transition was found." in printed
    assert "Look here." in (tmp_path / "seen" / "report.html").read_text(encoding="utf8")


def test_a_probe_is_found_by_its_name(site: Path, small_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(small_folder, tmp_path / "run")
    stagewise(site, tmp_path, "measure", "run", "--only", "Loss", "--probe", "Evenness", "--quiet")
    assert "Evenness" in set(read_table(tmp_path / "run")["probe"])
    code = "import stagewise; print(stagewise.probes.Evenness.__module__)"
    environment = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}"}
    printed = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert printed.stdout == "further\n"


def test_a_task_is_found_by_its_names_and_opened_once_a_person_has_named_it(site: Path, tmp_path: Path) -> None:
    assert "backward-chain" in stagewise(site, tmp_path, "run", "--help")
    stagewise(site, tmp_path, "run", "backward-chain", "--steps", "2", "--only", "Loss", "--no-restricted", "--quiet")
    recorded = json.loads((tmp_path / "runs" / "backward-chain" / RUN).read_text(encoding="utf8"))["recipe"]["task"]
    assert (recorded["type"], recorded["reverse"]) == ("further:BackwardChain", True)
    code = "import sys, stagewise; name = stagewise.tasks.BackwardChain.__module__; print(name)"
    environment = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}"}
    printed = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert printed.stdout == "further\n"


def test_a_record_that_names_what_a_package_adds_imports_nothing(site: Path) -> None:
    code = "import sys; from stagewise.recipe import rebuild\n"
    code += "try:\n    rebuild({'type': 'BackwardChain'})\n"
    code += "except ValueError as reason:\n    print(reason, 'further' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}"}
    printed = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert "allow it with --task further:BackwardChain" in printed.stdout
    assert printed.stdout.endswith(" False\n")
