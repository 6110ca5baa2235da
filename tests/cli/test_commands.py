"""Functions as commands: groups of options are flattened, errors are a line and a status."""

import dataclasses
import inspect
import signal
from concurrent.futures.process import BrokenProcessPool

import pytest
import typer

from stagewise.cli._commands import command, reported_errors
from stagewise.processes import worker_pool


@dataclasses.dataclass(frozen=True)
class Size:
    heads: int = 2
    layers: int = 1


def test_a_group_of_options_is_flattened_in_its_place() -> None:
    def build(name: str, *, size: Size, quiet: bool = False) -> None:
        """Build."""
        print(name, size, quiet)

    assert list(inspect.signature(command(build)).parameters) == ["name", "heads", "layers", "quiet"]
    assert (command(build).__name__, command(build).__doc__) == ("build", "Build.")


def test_a_command_gets_its_groups_back(capsys: pytest.CaptureFixture[str]) -> None:
    def build(*, size: Size, quiet: bool = False) -> None:
        print(size, quiet)

    command(build)(heads=3, layers=4, quiet=True)
    assert capsys.readouterr().out == "Size(heads=3, layers=4) True\n"


def test_a_command_reports_its_errors() -> None:
    def refuse() -> None:
        raise ValueError("too large")

    with pytest.raises(typer.Exit):
        command(refuse)()


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ValueError("too large"), 2, "stagewise: too large"),
        (FileNotFoundError("no run.json"), 2, "stagewise: no run.json"),
        (KeyboardInterrupt(), 130, "interrupted; what is on disk stays: run the same command again"),
    ],
)
def test_an_error_is_a_line_and_a_status(
    error: BaseException, code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as stopped, reported_errors():
        raise error
    assert (stopped.value.exit_code, capsys.readouterr().err) == (code, f"{line}\n")


def test_a_reader_that_has_read_enough_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BrokenPipeError), reported_errors():
        raise BrokenPipeError(32, "Broken pipe")
    assert capsys.readouterr().err == ""


def test_a_fault_of_the_program_keeps_its_traceback() -> None:
    with pytest.raises(KeyError, match="fault"), reported_errors():
        raise KeyError("fault")


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried")]
)
def test_too_little_memory_is_called_so(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as end, reported_errors():
        raise error
    assert end.value.exit_code == 2
    assert capsys.readouterr().err.startswith("stagewise: there is not enough memory; make the model or the batch")


def test_a_worker_that_the_system_ended_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as end, reported_errors(), worker_pool(1, models=False) as pool:
        pool.submit(signal.raise_signal, signal.SIGKILL).result()
    assert end.value.exit_code == 2
    assert capsys.readouterr().err.startswith("stagewise: the system ended a worker process, most often for want of")


def test_an_error_that_nothing_explains_stays_one() -> None:
    with pytest.raises(RuntimeError, match="of another kind"), reported_errors():
        raise RuntimeError("of another kind")


def test_a_command_whose_worker_the_system_ended_is_tried_once_more(capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[int] = []

    def broken_at(*numbers: int) -> None:
        calls.append(len(calls))
        if calls[-1] in numbers:
            raise BrokenProcessPool("a process was terminated abruptly")

    command(lambda: broken_at(0))()
    assert (len(calls), capsys.readouterr().err.count("the system ended a worker process: once more")) == (2, 1)
    with pytest.raises(typer.Exit):
        command(lambda: broken_at(2, 3))()
    assert len(calls) == 4
