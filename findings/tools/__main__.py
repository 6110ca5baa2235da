"""What a tool writes, and what is said of it: `python findings/tools NAME...`, or all names without one.

Each name is a function of the files beside this one, which writes into the present folder and returns the commands
that are run there. Its docstring has the packages that it needs besides this library's own.
"""

import contextlib
import importlib
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
SHOWN, LONGEST = 8, 700
"""Files of a folder that are listed, and characters of an answer."""


def writers() -> dict[str, Callable[[], str]]:
    """Return every tool's function by its name."""
    found: dict[str, Callable[[], str]] = {}
    for file in sorted(HERE.glob("[a-z]*.py")):
        for name, value in vars(importlib.import_module(file.stem)).items():
            if getattr(value, "__module__", "") == file.stem and not name.startswith("_"):
                found[name.replace("_", "-")] = value
    return found


def show(name: str, write: Callable[[], str], folder: str) -> None:
    """Let the tool write, list its files, and print what the commands answer."""
    from typer.testing import CliRunner

    from stagewise.cli.app import app

    Path(folder).mkdir(parents=True)
    with contextlib.chdir(folder):
        print(f"== {name} ({write.__doc__})", flush=True)
        commands = write()
        files = sorted(str(each) for each in Path().rglob("*") if each.is_file())
        print(*files[:SHOWN], f"... {len(files)} files" if len(files) > SHOWN else "", sep="\n")
        for command in filter(None, commands.split(";")):
            ended = CliRunner().invoke(app, command.split())
            print(f"$ stagewise {command} -> {ended.exit_code}", ended.output[:LONGEST], sep="\n", flush=True)
            if ended.exception and not isinstance(ended.exception, SystemExit):
                traceback.print_exception(ended.exception)


if __name__ == "__main__":
    known = writers()
    with tempfile.TemporaryDirectory() as place:
        for each in sys.argv[1:] or known:
            try:
                show(each, known[each], f"{place}/{each}")
            except Exception as error:
                print(f"not written: {type(error).__name__}: {error}")
