"""A process of one thread."""

import subprocess
import sys

import pytest
import torch

from stagewise.models._process import one_thread


def test_torch_takes_one_thread() -> None:
    torch.set_num_threads(2)
    one_thread()
    assert torch.get_num_threads() == 1


@pytest.mark.slow
def test_a_process_takes_one_thread_and_works_on() -> None:
    code = (
        "import torch; from stagewise.models._process import one_thread; one_thread(); "
        "assert torch.get_num_threads() == 1; assert float(torch.ones(3000, 3000).sum()) == 9e6"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
