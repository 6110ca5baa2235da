"""What the commands share: contexts, errors in a line, stages on the screen."""

import json
import signal

import numpy as np
import pandas as pd
import pytest
import typer

from stagewise.cli.options import read_contexts, read_memory, reported_errors, show
from stagewise.findings.stages import find_stages
from stagewise.processes import worker_pool


@pytest.mark.parametrize("restricted", [None, True])
def test_contexts_are_sorted_and_none_is_there_twice(restricted: bool | None) -> None:
    assert read_contexts(restricted, "4, 1,2,4") == (1, 2, 4)
    assert read_contexts(restricted, None) is restricted


@pytest.mark.parametrize(
    ("restricted", "contexts", "message"),
    [(False, "1", "give one of the two"), (None, "1,-2", "got '1,-2'"), (True, "", "whole numbers, as in 1,2,4")],
)
def test_contexts_without_a_meaning_are_refused(restricted: bool | None, contexts: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_contexts(restricted, contexts)


@pytest.mark.parametrize(
    ("memory", "expected"), [(None, None), ("512MB", 512_000_000), ("1.5 gb", 1_500_000_000), ("2GiB", 2**31)]
)
def test_memory_is_a_size_with_its_unit(memory: str | None, expected: int | None) -> None:
    assert read_memory(memory) == expected


@pytest.mark.parametrize("memory", ["512", "MB", "-1MB", "0MB", "2TB", "1IB"])
def test_memory_without_a_meaning_is_refused(memory: str) -> None:
    with pytest.raises(ValueError, match="--memory takes a size with its unit, as in 512MB or 2GB; got"):
        read_memory(memory)


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ValueError("too large"), 2, "stagewise: too large"),
        (FileNotFoundError("no run.json"), 2, "stagewise: no run.json"),
        (KeyboardInterrupt(), 130, "interrupted; the same command resumes from the last checkpoint"),
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


def test_stages_are_printed_in_words_or_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    steps = np.arange(0, 100, 10)
    table = pd.DataFrame({"step": steps, "value": 1.0, "run": "mine", "probe": "Loss", "quantity": "cross_entropy"})
    stages = find_stages(table)
    show(stages, as_json=False)
    assert capsys.readouterr().out == f"{stages}\n"
    show(stages, as_json=True)
    data = json.loads(capsys.readouterr().out)
    assert (data["run"], data["table"][0]["start"], data["table"][0]["end"]) == ("mine", 0, 90)
    show(None, as_json=True, run="other")
    empty = json.loads(capsys.readouterr().out)
    frames: dict[str, list[object]] = {name: [] for name in ("table", "turning_points", "events", "onsets", "words")}
    assert empty == {"run": "other", "probe_batch": None, **frames}


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
