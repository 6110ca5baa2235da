"""Ctrl-C in the first moments of a command ends it in a line."""

import signal
import subprocess
import sys
import time

import pytest

STARTED = """
import sys, importlib.abc
from stagewise.cli._interrupts import end_at_once
end_at_once()
print("started", flush=True)
class Slow(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == LOADED:
            print("loading", flush=True)
            import time; time.sleep(30)
sys.meta_path.insert(0, Slow())
sys.argv = ["stagewise", "suites"]
from stagewise.__main__ import main
main()
"""


@pytest.mark.parametrize("loaded", ["stagewise.cli.app", "typer"])
def test_an_interrupt_while_modules_are_loaded_is_a_line(loaded: str) -> None:
    program = STARTED.replace("LOADED", repr(loaded))
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        while process.stdout.readline() not in ("loading\n", ""):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, printed = process.communicate(timeout=30)
    assert (process.returncode, printed) == (130, "interrupted\n")
