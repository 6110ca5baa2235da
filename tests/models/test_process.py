"""A process of one thread."""

import subprocess
import sys

import pytest
import torch

from stagewise.models.process import one_thread, threads


def test_torch_takes_one_thread() -> None:
    torch.set_num_threads(2)
    one_thread()
    assert torch.get_num_threads() == 1


def test_more_threads_are_for_a_time_and_where_the_environment_names_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with threads(2):
        assert torch.get_num_threads() == 2
    assert torch.get_num_threads() == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with threads(2):
        assert torch.get_num_threads() == 1


@pytest.mark.slow
def test_a_process_takes_one_thread_and_works_on() -> None:
    code = (
        "import torch; from stagewise.models.process import one_thread; one_thread(); "
        "assert torch.get_num_threads() == 1; assert float(torch.ones(3000, 3000).sum()) == 9e6"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
