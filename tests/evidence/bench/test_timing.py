"""The harness of the bench: medians of ratios, the right clock, memory of a process of its own."""

import sys
import time
from collections.abc import Callable

import pytest

from evidence.bench.timing import (
    Pair,
    Row,
    Spent,
    peak_memory,
    peak_of_command,
    ratio,
    spent,
    spent_by_command,
    timed_in_turn,
)


def test_a_ratio_is_the_median_over_pairs_not_that_of_medians() -> None:
    pairs = [Pair(Spent(first, 1.0), Spent(second, 2.0)) for first, second in [(1, 1), (9, 3), (2, 4)]]
    row = ratio("a over b", pairs, goal=1.0)
    assert (row.value, row.low, row.high) == (1.0, 0.5, 3.0)
    assert ratio("a over b", pairs, clock="wall").value == 0.5


@pytest.mark.parametrize(
    ("value", "goal", "better", "reached"),
    [(1.1, 1.1, "lower", True), (1.2, 1.1, "lower", False), (4.0, 4, "higher", True), (3.9, 4, "higher", False)],
)
def test_a_goal_is_reached_from_its_own_side(value: float, goal: float, better: str, reached: bool) -> None:
    assert Row("row", value, value, value, goal, better).reached is reached  # type: ignore[arg-type]


def test_both_sides_run_equally_often_and_in_turn() -> None:
    calls: list[str] = []
    timed_in_turn(lambda: calls.append("a"), lambda: calls.append("b"), pairs=2)
    assert calls == ["a", "b", "a", "b", "b", "a"]


def test_sleep_costs_wall_time_and_no_cpu_time() -> None:
    asleep = spent(lambda: time.sleep(0.05))
    assert asleep.wall >= 0.05
    assert asleep.cpu < asleep.wall


def hundred_megabytes() -> Callable[[], object]:
    return lambda: len(b"x" * 100_000_000)


def test_peak_memory_counts_what_the_work_held_beyond_its_preparation() -> None:
    memory = peak_memory(hundred_megabytes)
    assert 95e6 < memory.peak - memory.prepared < 130e6


@pytest.mark.slow
def test_the_memory_of_a_command_is_that_of_all_its_processes() -> None:
    hold = "b'x' * 100_000_000; import time; time.sleep(1)"
    code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {f'held = {hold}'!r}]); held = {hold}"
    assert 200e6 < peak_of_command(sys.executable, "-c", code) < 300e6


@pytest.mark.slow
def test_the_seconds_of_a_command_are_those_of_all_its_processes() -> None:
    work = "import time\nwhile time.process_time() < 1: pass"
    code = (
        f"import subprocess, sys; started = subprocess.Popen([sys.executable, '-c', {work!r}])\n{work}\nstarted.wait()"
    )
    assert 1.5 < spent_by_command(sys.executable, "-c", code).cpu < 2.5
