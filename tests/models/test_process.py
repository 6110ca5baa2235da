"""A process of one thread."""

import multiprocessing
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


@pytest.mark.slow
@pytest.mark.skipif("forkserver" not in multiprocessing.get_all_start_methods(), reason="workers have no server here")
def test_an_interrupt_while_the_server_of_workers_imports_is_none_of_the_server_and_one_of_workers() -> None:
    code = (
        "import os, signal; from multiprocessing.forkserver import _forkserver as server\n"
        "from stagewise.models.process import start_server; from stagewise.processes import worker_pool\n"
        "start_server('json.tool'); os.kill(server._forkserver_pid, signal.SIGINT)\n"
        "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
        "with worker_pool(1) as pool:\n"
        "    assert pool.submit(eval, \"'json.tool' in __import__('sys').modules\").result()\n"
        "    pool.submit(signal.raise_signal, signal.SIGINT).result()"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.stderr.count("KeyboardInterrupt") == 2
