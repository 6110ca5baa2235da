"""Worker processes: without torch where they only read, as many as pay, ended with what they work for."""

import concurrent.futures
import subprocess
import sys
from pathlib import Path

import pytest

from stagewise.processes import ROWS, cores, readers, several, worker_pool
from tests.fixtures.runs import AtOnce

IMPORTED = "'torch' in __import__('sys').modules"


def test_processes_that_read_tables_start_without_torch() -> None:
    with worker_pool(1, models=False) as pool:
        assert not pool.submit(eval, IMPORTED).result()


@pytest.mark.slow
def test_processes_that_run_models_have_imported_torch_and_take_one_thread() -> None:
    with worker_pool(1) as pool:
        assert pool.submit(eval, IMPORTED).result()
        assert pool.submit(eval, "__import__('torch').get_num_threads()").result() == 1


@pytest.mark.parametrize(
    ("workers", "rows", "started"), [(1, 9 * ROWS, None), (4, 2 * ROWS - 1, None), (4, 2 * ROWS, 2), (2, 9 * ROWS, 2)]
)
def test_no_more_processes_read_a_table_than_pay(
    workers: int, rows: int, started: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []

    def start(workers: int, models: bool) -> concurrent.futures.Executor:
        assert not models
        begun.append(workers)
        return AtOnce()

    monkeypatch.setattr("stagewise.processes.worker_pool", start)
    with readers(workers, rows) as executor:
        assert (executor is None) == (started is None)
    assert begun == ([] if started is None else [started])


def test_an_executor_of_ones_own_reads_any_table() -> None:
    own = AtOnce()
    with readers(1, 0, own) as executor:
        assert executor is own


def test_no_worker_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="give at least one worker, got 0"), readers(0, ROWS):
        pass


@pytest.mark.usefixtures("no_workers")
def test_one_worker_is_this_process_and_more_are_a_pool() -> None:
    with several(1) as alone, several(2) as pool:
        assert (alone, type(pool)) == (None, AtOnce)
    with pytest.raises(ValueError, match="give at least one worker, got 0"):
        several(0)


def test_there_is_a_core() -> None:
    assert cores() >= 1


@pytest.mark.parametrize("guard", ["", 'if __name__ == "__main__":\n    '])
def test_a_script_that_each_worker_would_begin_anew_is_refused_before_it_begins(guard: str, tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    works = "with several(2) as pool: print(pool.submit(abs, -1).result())"
    script.write_text(f"from stagewise.processes import several\n{guard}{works}\n")
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    if guard:
        assert (ended.returncode, ended.stdout) == (0, "1\n")
    else:
        assert ended.stderr.endswith('would begin it anew: put what it does below `if __name__ == "__main__":`\n')
        assert ended.stderr.count("Traceback") == 1
