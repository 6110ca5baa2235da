"""A stranger's package, installed as any other, adds a command, a probe, a task, a format and a section."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

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


PROGRAM = """
import json, sys
from typer.testing import CliRunner
from stagewise.cli.app import app
from stagewise.recipe import rebuild

outputs = {}

def call(*words):
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "100"})
    assert result.exit_code == 0, (words, result.output)
    outputs[" ".join(words)] = result.stdout
    return "further" in sys.modules

imported = [call("--help")]
try:
    rebuild({"type": "BackwardChain"})
except ValueError as reason:
    outputs["rebuild"] = str(reason)
imported.append("further" in sys.modules)
for words in ("run --help", "run shout --help", "run shout word", "further two word", "report log.doubles --out seen"):
    call(*words.split())
call("measure", "run", "--only", "Loss", "--probe", "Evenness", "--quiet")
call("run", "backward-chain", "--steps", "2", "--only", "Loss", "--no-restricted", "--quiet")

import stagewise
places = [stagewise.probes.Evenness.__module__, stagewise.tasks.BackwardChain.__module__]
print(json.dumps([outputs, imported, places]))
"""


class Used(NamedTuple):
    """What one process did beside the package: the outputs of commands, whether the package was imported by --help
    and by a record, where its classes lie, and the folder of it all.
    """

    outputs: dict[str, str]
    imported: list[bool]
    places: list[str]
    folder: Path


@pytest.fixture(scope="module")
def used(site: Path, small_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Used:
    folder = tmp_path_factory.mktemp("used")
    shutil.copytree(small_folder, folder / "run")
    (folder / "log.doubles").touch()
    environment = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}"}
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    outputs, imported, places = json.loads(result.stdout.splitlines()[-1])
    return Used(outputs, imported, places, folder)


def test_commands_stand_in_their_groups_and_run(used: Used) -> None:
    assert "Of the package further." in used.outputs["--help"]
    assert "shout" in used.outputs["run --help"]
    assert "Say a word aloud." in used.outputs["run shout --help"]
    assert used.outputs["run shout word"] == used.outputs["further two word"] == "WORD\n"


def test_help_imports_no_command_of_a_package_and_a_record_that_names_its_task_nothing(used: Used) -> None:
    assert used.imported == [False, False]
    assert "allow it with --task further:BackwardChain" in used.outputs["rebuild"]


def test_a_format_is_opened_and_a_section_is_in_the_report(used: Used) -> None:
    assert "One transition was found." in used.outputs["report log.doubles --out seen"]
    assert "Look here." in (used.folder / "seen" / "report.html").read_text(encoding="utf8")


def test_a_probe_is_found_by_its_name(used: Used) -> None:
    assert "Evenness" in set(read_table(used.folder / "run")["probe"])
    assert used.places[0] == "further"


def test_a_task_is_found_by_its_names_and_opened_once_a_person_has_named_it(used: Used) -> None:
    assert "backward-chain" in used.outputs["run --help"]
    record = json.loads((used.folder / "runs" / "backward-chain" / RUN).read_text(encoding="utf8"))
    recorded = record["recipe"]["task"]
    assert (recorded["type"], recorded["reverse"]) == ("further:BackwardChain", True)
    assert used.places[1] == "further"
