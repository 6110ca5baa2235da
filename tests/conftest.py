"""What all tests share: one thread, fewer run-time checks where they cost most, and fixtures, a file a subject."""

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import jaxtyping
import pytest
import torch
from scipy.integrate import solve_ivp

pytest_plugins = [
    "tests.fixtures.data",
    "tests.fixtures.each_value",
    "tests.fixtures.hooked_only",
    "tests.fixtures.hugging_face",
    "tests.fixtures.imported",
    "tests.fixtures.interruptible",
    "tests.fixtures.late",
    "tests.fixtures.planted_findings",
    "tests.fixtures.runs",
    "tests.fixtures.tables",
    "tests.fixtures.views",
]
"""Fixtures by subject, for all tests."""

hypothesis.settings.register_profile("no times", deadline=None)
hypothesis.settings.load_profile("no times")  # how long an example takes is the machine's, and no test asserts a time


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    """One thread; commands that run in this process leave its allocator alone, for others measure its memory."""
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stagewise.models.process._keep_freed_memory", lambda: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def unsynced() -> Iterator[None]:
    """Files are not forced onto the disk, which takes milliseconds each: no test cuts the power.

    Tests of what is synced put a function of their own in this place.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda descriptor: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def frozen() -> None:
    """Spare the garbage collector what is there before the first test: a look through it takes a third of a second."""
    gc.freeze()


@contextlib.contextmanager
def unchecked_types() -> Iterator[None]:
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)


@pytest.fixture(scope="module")
def unchecked() -> Iterator[None]:
    """No run-time type checks in a module of whole runs: what it calls is checked where it is tested by itself."""
    with unchecked_types():
        yield


@pytest.fixture(autouse=True, scope="session")
def checked_once() -> Iterator[None]:
    """Check the types of a velocity in its first evaluation: in every one of a solver's they take most of its time."""

    def solve_once_checked(velocity: Callable[..., Any], span: Any, start: Any, *arguments: Any, **named: Any) -> Any:
        velocity(span[0], start)
        with unchecked_types():
            return solve_ivp(velocity, span, start, *arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stagewise.papers.theory.dynamics.solve_ivp", solve_once_checked)
        yield
