"""Sweeps: every setting once, results kept whole, and nothing lost when one fails or all is killed."""

import concurrent.futures
import functools
import importlib
import json
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from stagewise.processes import worker_pool
from stagewise.recipe import Seeds
from stagewise.sweeping import RunsFailed, parameter_grid, sweep
from tests.fixtures.leftover import left_over

ROOT = Path(__file__).parents[1]


def record(folder: str, x: int) -> dict[str, float]:
    """Leave a trace of every call."""
    with open(Path(folder) / "calls", "a", encoding="utf8") as file:
        file.write(f"{x}\n")
    if (Path(folder) / "broken").exists() and x == 2:
        raise ZeroDivisionError("x is 2")
    return {"square": float(x * x)}


def calls(folder: Path) -> list[str]:
    return sorted((folder / "calls").read_text().split())


@pytest.fixture
def threads() -> concurrent.futures.Executor:
    return concurrent.futures.ThreadPoolExecutor(2)


def test_every_setting_gives_its_row_in_order(tmp_path: Path, threads: concurrent.futures.Executor) -> None:
    frame = sweep(record, parameter_grid(folder=[str(tmp_path)], x=[3, 1, 2]), tmp_path, threads, progress=False)
    assert frame[["x", "square"]].to_dict("list") == {"x": [3, 1, 2], "square": [9, 1, 4]}


def test_a_second_sweep_runs_only_what_is_new(tmp_path: Path, threads: concurrent.futures.Executor) -> None:
    sweep(record, parameter_grid(folder=[str(tmp_path)], x=[1, 2]), tmp_path, threads, progress=False)
    frame = sweep(record, parameter_grid(folder=[str(tmp_path)], x=[1, 2, 3]), tmp_path, threads, progress=False)
    assert calls(tmp_path) == ["1", "2", "3"]
    assert frame["square"].tolist() == [1, 4, 9]


def test_what_a_killed_sweep_left_beside_its_results_goes(tmp_path: Path, threads: concurrent.futures.Executor) -> None:
    settings = parameter_grid(folder=[str(tmp_path)], x=[1])
    sweep(record, settings, tmp_path, threads, progress=False)
    leftover = left_over(tmp_path / "results" / "x.json")
    sweep(record, settings, tmp_path, threads, progress=False)
    assert not leftover.exists()


def test_results_of_another_folder_are_found_again_there(tmp_path: Path, threads: concurrent.futures.Executor) -> None:
    for _ in range(2):
        sweep(
            record, parameter_grid(folder=[str(tmp_path)], x=[1, 2]), tmp_path, threads, results=".kept", progress=False
        )
    assert calls(tmp_path) == ["1", "2"]
    assert len(list((tmp_path / ".kept").glob("*.json"))) == 2
    assert not (tmp_path / "results").exists()


def test_a_failed_run_loses_no_other_and_is_tried_again(tmp_path: Path, threads: concurrent.futures.Executor) -> None:
    (tmp_path / "broken").touch()
    settings = parameter_grid(folder=[str(tmp_path)], x=[1, 2, 3])
    with pytest.raises(RunsFailed, match=r"(?s)1 of 3 runs failed.*'x': 2.*ZeroDivisionError: x is 2") as failed:
        sweep(record, settings, tmp_path, threads, progress=False)
    assert failed.value.finished["square"].to_dict() == {0: 1, 2: 9}
    (tmp_path / "broken").unlink()
    assert sweep(record, settings, tmp_path, threads, progress=False)["square"].tolist() == [1, 4, 9]
    assert calls(tmp_path) == ["1", "2", "2", "3"]


def counted(x: int) -> Any:
    """Return what JSON can hold, but for two x."""
    return {1: None, 2: {"count": np.int64(2)}}.get(x, {"count": x})


def test_a_result_that_json_cannot_hold_loses_no_other(tmp_path: Path, threads: concurrent.futures.Executor) -> None:
    with pytest.raises(RunsFailed, match=r"(?s)2 of 5 runs failed.*'x': [12].*named results that JSON can hold, got"):
        sweep(counted, parameter_grid(x=range(5)), tmp_path, threads, progress=False)
    assert len(list((tmp_path / "results").glob("*.json"))) == 3


def halved(x: int) -> dict[str, Any]:
    """Return a result that is named like the setting."""
    return {"x": x / 2, "y": [x]}


def test_a_result_named_like_a_setting_is_beside_it(tmp_path: Path, threads: concurrent.futures.Executor) -> None:
    table = sweep(halved, parameter_grid(x=[1, 2]), tmp_path, threads, progress=False)
    assert table.to_dict("list") == {"x": [1, 2], "x_result": [0.5, 1.0], "y": [[1], [2]]}


def begin(path: str) -> None:
    """Leave a file, and work on for a while."""
    Path(path).touch()
    time.sleep(2)


def fails_beside_another(path: str) -> dict[str, int]:
    """Fail while a process of one's own works."""
    with worker_pool(1) as pool:
        pool.submit(begin, path)
        while not Path(path).exists():
            time.sleep(0.01)
        raise ZeroDivisionError("beside another")


ENDS = """
from pathlib import Path
from stagewise.sweeping import RunsFailed, sweep
from tests.test_sweeping import fails_beside_another
try:
    sweep(fails_beside_another, [{{"path": {folder!r} + "/begun"}}], Path({folder!r}), workers=1, progress=False)
except RunsFailed as failed:
    print(failed)
"""


@pytest.mark.slow
def test_a_run_that_fails_beside_processes_of_its_own_ends(tmp_path: Path) -> None:
    code = [sys.executable, "-c", ENDS.format(folder=str(tmp_path))]
    done = subprocess.run(code, cwd=ROOT, capture_output=True, text=True)
    assert "ZeroDivisionError: beside another" in done.stdout


def test_a_run_that_failed_is_named_in_a_line(tmp_path: Path, threads: concurrent.futures.Executor) -> None:
    with pytest.raises(RunsFailed, match=r"\{'x': \[0, 1, 2, .{90}, 'folder': 'here'\}: TypeError"):
        sweep(counted, [{"x": [*range(999)], "folder": "here"}], tmp_path, threads, progress=False)


def test_a_run_that_failed_has_the_name_that_is_given(tmp_path: Path, threads: concurrent.futures.Executor) -> None:
    with pytest.raises(RunsFailed, match=r"(?s)again:\n  number 2: TypeError: ") as failed:
        sweep(counted, parameter_grid(x=[2]), tmp_path, threads, name="number {x}".format_map, progress=False)
    assert failed.value.finished.empty


def test_settings_may_come_one_after_the_other(tmp_path: Path, threads: concurrent.futures.Executor) -> None:
    frame = sweep(counted, ({"x": x} for x in (3, 4)), tmp_path, threads, progress=False)
    assert frame["count"].tolist() == [3, 4]


@pytest.mark.parametrize("function", [lambda x: {"x": x}, functools.partial(counted, 3)], ids=["lambda", "partial"])
def test_a_function_without_a_name_is_refused(
    function: Any, tmp_path: Path, threads: concurrent.futures.Executor
) -> None:
    with pytest.raises(ValueError, match="the function of a sweep has a name, by which its results are found again"):
        sweep(function, [{"x": 1}], tmp_path, threads, progress=False)


def test_a_result_file_says_what_it_is_of(tmp_path: Path, threads: concurrent.futures.Executor) -> None:
    sweep(record, parameter_grid(folder=[str(tmp_path)], x=[4]), tmp_path, threads, progress=False)
    (path,) = (tmp_path / "results").glob("*.json")
    found = json.loads(path.read_text())
    assert found["setting"]["x"] == 4
    assert found["result"] == {"square": 16}
    assert found["function"].endswith("record")


SETTINGS = parameter_grid(x=[0, 1, 2, 3])
SCRIPT = f"""
import os, threading
from stagewise.sweeping import sweep
def twice(x):
    if x == 2 and "WAIT" in os.environ:
        threading.Event().wait()
    return {{"twice": 2 * x}}
def main(folder):
    sweep(twice, {SETTINGS}, folder, workers=1, progress=False)
"""


@pytest.mark.slow
def test_a_killed_sweep_keeps_what_it_finished_and_goes_on(
    tmp_path: Path, threads: concurrent.futures.Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker waits for ever in the third run, so that two are finished whenever the sweep is killed."""
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-c", "import script, sys; script.main(sys.argv[1])", str(tmp_path / "sweep")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)]), "WAIT": ""}
    first = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
    while len(list((tmp_path / "sweep").glob("results/*.json"))) < 2 and first.poll() is None:
        time.sleep(0.02)
    first.kill()
    first.communicate()  # to the end of its output, which its worker holds too: it ends with it
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "sweep" / "results").glob("*.json")}
    assert len(kept) == 2
    monkeypatch.syspath_prepend(tmp_path)
    script = importlib.import_module("script")
    monkeypatch.delitem(sys.modules, "script")
    frame = sweep(script.twice, SETTINGS, tmp_path / "sweep", threads, progress=False)
    assert frame["twice"].tolist() == [0, 2, 4, 6]
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


def test_settings_that_cannot_be_told_apart_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="comes 2 times: give seeds to repeat a run"):
        sweep(record, [{"x": 1}, {"x": 1}], tmp_path)
    with pytest.raises(ValueError, match=r"comes 2 times.* 1, 1.0 and True, are one"):
        sweep(record, [{"x": 1}, {"x": True}], tmp_path)
    with pytest.raises(ValueError, match="all settings of a sweep have the same names"):
        sweep(record, [{"x": 1}, {"y": 1}], tmp_path)
    with pytest.raises(ValueError, match="at least one setting"):
        sweep(record, [], tmp_path)
    with pytest.raises(ValueError, match="at least one worker, got 0"):
        sweep(record, [{"x": 1}], tmp_path, workers=0)


def test_the_bar_counts_what_runs_cost(
    tmp_path: Path, threads: concurrent.futures.Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    updates: list[int] = []
    monkeypatch.setattr("stagewise.sweeping.tqdm.update", lambda _, cost: updates.append(cost))
    sweep(record, parameter_grid(folder=[str(tmp_path)], x=[1, 3]), tmp_path, threads, cost=lambda each: each["x"])
    assert sorted(updates) == [1, 3]


def test_a_finished_sweep_says_so(
    tmp_path: Path, threads: concurrent.futures.Executor, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = parameter_grid(folder=[str(tmp_path)], x=[1, 3])
    sweep(record, settings, tmp_path, threads)
    assert "2 of 2 runs" in capsys.readouterr().err
    sweep(record, settings, tmp_path, threads)
    assert capsys.readouterr().err == f"{tmp_path.name}: all 2 runs are there, nothing is run again\n"
    sweep(record, settings, tmp_path, threads, progress=False)
    assert capsys.readouterr().err == ""


def test_a_setting_may_hold_what_a_recipe_holds(tmp_path: Path, threads: concurrent.futures.Executor) -> None:
    frame = sweep(seeded, [{"seeds": Seeds(1)}, {"seeds": Seeds(2)}], tmp_path, threads, progress=False)
    assert frame["init"].tolist() == [1, 2]


def seeded(seeds: Seeds) -> dict[str, int]:
    return {"init": seeds.init}


def threads_of_torch(x: int) -> dict[str, int]:
    return {"threads": torch.get_num_threads(), "process": os.getpid()}


def start_of_worker(x: int) -> dict[str, object]:
    return {"imported": "transformer_lens" in sys.modules, "told": os.environ.get("STAGEWISE_TOLD", "nothing")}


@pytest.mark.slow
def test_workers_have_imported_what_they_need_and_this_process_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for told in ("one", "two"):
        monkeypatch.setenv("STAGEWISE_TOLD", told)
        frame = sweep(start_of_worker, parameter_grid(x=[1]), tmp_path / told, workers=1, progress=False)
        assert frame["told"].tolist() == [told]
        assert frame["imported"].tolist() == ["forkserver" in multiprocessing.get_all_start_methods()]


@pytest.mark.slow
def test_workers_take_one_thread_and_serve_several_runs(tmp_path: Path) -> None:
    frame = sweep(threads_of_torch, parameter_grid(x=[1, 2, 3]), tmp_path, workers=1, progress=False)
    assert frame["threads"].tolist() == [1, 1, 1]
    assert frame["process"].nunique() == 1
    assert os.getpid() not in frame["process"].tolist()


def slow_square(folder: str, x: int) -> dict[str, int]:
    """Wait in a worker's second setting, and in later ones, until a worker was killed."""
    (Path(folder) / f"begun-{x}-{os.getpid()}").touch()
    while len(list(Path(folder).glob(f"begun-*-{os.getpid()}"))) >= 2 and not (Path(folder) / "killed").exists():
        time.sleep(0.01)
    return {"square": x * x, "threads": torch.get_num_threads()}


def begun(folder: Path) -> list[str]:
    return sorted(path.name.split("-")[1] for path in folder.glob("begun-*"))


@pytest.mark.slow
def test_a_dask_cluster_that_loses_a_worker_finishes_every_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": logging.CRITICAL}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        workers = client.run(os.getpid)
        killer = threading.Thread(target=kill_when_begun, args=(tmp_path, set(workers.values())))
        killer.start()
        settings = parameter_grid(folder=[str(tmp_path)], x=list(range(8)))
        frame = sweep(slow_square, settings, tmp_path, client.get_executor(), progress=False)
        killer.join()
    assert frame["square"].tolist() == [x * x for x in range(8)]
    assert frame["threads"].tolist() == [1] * 8
    assert len(begun(tmp_path)) > 8  # what the lost worker had begun was begun again


def kill_when_begun(folder: Path, workers: set[int]) -> None:
    """Kill a worker while it runs its second setting or a later one."""
    while True:
        for worker in workers:
            if len(list(folder.glob(f"begun-*-{worker}"))) >= 2:
                os.kill(worker, signal.SIGKILL)
                (folder / "killed").touch()
                return
        time.sleep(0.01)


@pytest.mark.slow
def test_jobs_of_submitit_give_their_rows_and_their_errors(tmp_path: Path) -> None:
    submitit = pytest.importorskip("submitit", reason="the extra `cluster` is not installed")
    executor = submitit.LocalExecutor(tmp_path / "jobs")
    (tmp_path / "broken").touch()
    settings = parameter_grid(folder=[str(tmp_path)], x=[1, 2])
    with pytest.raises(RunsFailed, match=r"(?s)1 of 2 runs failed.*'x': 2.*x is 2"):
        sweep(record, settings, tmp_path, executor, progress=False)
    (path,) = (tmp_path / "results").glob("*.json")
    assert json.loads(path.read_text())["result"] == {"square": 1}
