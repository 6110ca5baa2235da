"""Kills before file operations: they are counted whichever library makes them, and the page gets its table."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from evidence.torture.operations import COMMANDS, PREPARED, State, table

ROOT = Path(__file__).parents[3]

COUNTED = """
import json, os, signal, sys
from pathlib import Path
import torch
from safetensors.torch import save_file
from evidence.torture.hook import NEVER, hooked
from evidence.torture.trials import Child

folder = Path(sys.argv[1])
hook = hooked("counted")
ways = {
    "python": lambda: (folder / "text").write_text("a"),
    "safetensors": lambda: save_file({"weights": torch.zeros(2)}, folder / "weights"),
    "elsewhere": lambda: (folder.parent / "text").write_text("a"),
    "rename": lambda: os.replace(folder / "text", folder / "other"),
}
counts, places = {}, {}
for name, way in ways.items():
    Child(way, hook.before(folder, NEVER, signal.SIGKILL)).wait()
    counts[name] = hook.count
status = Child(ways["python"], hook.before(folder, 1, signal.SIGKILL)).wait().status
print(json.dumps([counts, status, hook.operation, (folder / "text").read_text()]))
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a compiler of C")
def test_operations_are_counted_whichever_library_makes_them(tmp_path: Path) -> None:
    (tmp_path / "counted.py").write_text(COUNTED)
    (tmp_path / "folder").mkdir()
    path = {"PYTHONPATH": f"{ROOT}:{tmp_path}", "PATH": "/usr/bin:/bin"}
    words = [sys.executable, "-m", "counted", str(tmp_path / "folder")]
    done = subprocess.run(words, env=path, capture_output=True, text=True, check=True)
    counts, status, operation, text = json.loads(done.stdout)
    assert (counts["python"], counts["elsewhere"], counts["rename"]) == (2, 0, 1)  # an open and a write
    assert counts["safetensors"] >= 2
    assert (status, operation, text) == (-9, "write text", "")


def test_every_command_begins_with_the_files_of_one_that_there_is() -> None:
    known = {"nothing", "planted", *COMMANDS, *PREPARED}
    assert {begins for begins, _ in [*COMMANDS.values(), *PREPARED.values()]} <= known


def test_the_table_counts_states_by_what_came() -> None:
    came = ("equal", "equal", "other bytes in run/a", "hangs: ")
    states = [State("train", 9, place, "killed", "open run/a", each) for place, each in enumerate(came)]
    assert table(states).splitlines()[2:] == ["| train | 9 | 4 | 2 | 1 | 1 |", "| **all** | 9 | 4 | 2 | 1 | 1 |"]
