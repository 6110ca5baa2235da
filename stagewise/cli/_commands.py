"""Functions as commands: their groups of options are flattened for typer, and their errors are a line each.

The arguments of a command that belong together are one frozen dataclass, each field an `Annotated` option of typer:
every option is written once, its name, its help and its default, and a command takes a few groups.
"""

import contextlib
import dataclasses
import functools
import inspect
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import typer

from stagewise.cli._interrupts import raise_again
from stagewise.own_code import ignore_local_look, safe_path
from stagewise.plain_text import PlainStream, shortened

TOO_LARGE = "can't allocate memory|out of memory"
"""torch's words in a RuntimeError where Python would raise a MemoryError."""


def command(function: Callable[..., None], *, models: bool = False) -> Callable[..., None]:
    """Return the function as typer registers it: the fields of each dataclass that it takes are options of their own.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Size:
    ...     heads: int = 2
    >>> def build(name: str, *, size: Size) -> None:
    ...     print(name, size)
    >>> inspect.signature(command(build))
    <Signature (name: str, *, heads: int = 2) -> None>
    """
    signature = inspect.signature(function)
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for name, each in signature.parameters.items():
        if dataclasses.is_dataclass(each.annotation):
            groups[name] = each.annotation
            for field in dataclasses.fields(each.annotation):
                parameters.append(each.replace(name=field.name, annotation=field.type, default=field.default))
        else:
            parameters.append(each)

    @functools.wraps(function)
    def flat(*args: Any, **options: Any) -> None:
        several = options.get("workers", 1) > 1
        for name, group in groups.items():
            options[name] = group(**{field.name: options.pop(field.name) for field in dataclasses.fields(group)})
        with reported_errors():
            if models:
                one_thread(several=several)
            raise_again()
            try:
                function(*args, **options)
            except BrokenExecutor:
                print("the system ended a worker process: once more, from what is finished", file=sys.stderr)
                function(*args, **options)

    flat.__dict__["__signature__"] = signature.replace(parameters=parameters)
    return flat


@contextlib.contextmanager
def reported_errors() -> Iterator[None]:
    """Print an error in a line or two, and a warning in one; files on disk stay, and a rerun resumes."""
    ignore_local_look()
    notes: dict[str, None] = {}

    def note(text: str) -> str:
        known = text in notes
        notes[text] = None
        return "" if known else f"note: {text}\n"

    usual, warnings.formatwarning = warnings.formatwarning, lambda message, *_: note(str(message))
    try:
        with safe_path(), redirect_stdout(PlainStream(sys.stdout)), redirect_stderr(PlainStream(sys.stderr)):
            yield
    except KeyboardInterrupt:
        print("interrupted; what is on disk stays: run the same command again", file=sys.stderr)
        raise typer.Exit(130) from None
    except BrokenPipeError:
        raise  # who reads the output has read enough, as `head`: typer ends in silence
    except (ValueError, TypeError, OSError, FloatingPointError) as error:
        raise _refusal(str(error)) from None
    except BrokenExecutor:
        raise _refusal(
            "the system ended a worker process, most often for want of memory; what it had finished stays: "
            "run the same command again, with fewer --workers if it has that option"
        ) from None
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not re.search(TOO_LARGE, str(error)):
            raise
        why = (str(error).splitlines() or [""])[0]
        raise _refusal(f"there is not enough memory; make the model or the batch smaller ({why})") from None
    finally:
        warnings.formatwarning = usual


def _refusal(reason: str) -> typer.Exit:
    """Print why a command ends; return what ends it."""
    print(shortened(f"stagewise: {reason}"), file=PlainStream(sys.stderr))
    return typer.Exit(2)


def one_thread(*, several: bool = False) -> None:
    """Take one thread, keep freed memory, and import what runs models, as the server of several processes does then."""
    from stagewise.models import process

    if several:
        process.start_server("stagewise.cli._preloaded")
    process.one_thread()
    process.import_libraries()
