"""Runs one after another, or in workers: the results in the order of the cases."""

import pytest

from stagewise.papers.running import run_each


def _square(number: int, *, progress: bool) -> int:
    assert not progress
    return number * number


@pytest.mark.parametrize("workers", [1, 2])
def test_results_are_in_the_order_of_the_cases(workers: int) -> None:
    assert run_each(_square, [3, 1, 2], workers, progress=False) == [9, 1, 4]
