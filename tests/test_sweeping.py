"""Sweeps: every setting once, results kept whole, and nothing lost when one fails or all is killed."""

import concurrent.futures
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stagewise.recipe import Seeds
from stagewise.sweeping import RunsFailed, grid, sweep

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
    frame = sweep(record, grid(folder=[str(tmp_path)], x=[3, 1, 2]), tmp_path, threads, progress=False)
    assert frame[["x", "square"]].to_dict("list") == {"x": [3, 1, 2], "square": [9, 1, 4]}


def test_a_second_sweep_runs_only_what_is_new(tmp_path: Path, threads: concurrent.futures.Executor) -> None:
    sweep(record, grid(folder=[str(tmp_path)], x=[1, 2]), tmp_path, threads, progress=False)
    frame = sweep(record, grid(folder=[str(tmp_path)], x=[1, 2, 3]), tmp_path, threads, progress=False)
    assert calls(tmp_path) == ["1", "2", "3"]
    assert frame["square"].tolist() == [1, 4, 9]


def test_a_failed_run_loses_no_other_and_is_tried_again(tmp_path: Path, threads: concurrent.futures.Executor) -> None:
    (tmp_path / "broken").touch()
    settings = grid(folder=[str(tmp_path)], x=[1, 2, 3])
    with pytest.raises(RunsFailed, match=r"(?s)1 of 3 runs failed.*'x': 2.*ZeroDivisionError: x is 2"):
        sweep(record, settings, tmp_path, threads, progress=False)
    (tmp_path / "broken").unlink()
    assert sweep(record, settings, tmp_path, threads, progress=False)["square"].tolist() == [1, 4, 9]
    assert calls(tmp_path) == ["1", "2", "2", "3"]


def test_a_result_file_says_what_it_is_of(tmp_path: Path, threads: concurrent.futures.Executor) -> None:
    sweep(record, grid(folder=[str(tmp_path)], x=[4]), tmp_path, threads, progress=False)
    (path,) = (tmp_path / "results").glob("*.json")
    found = json.loads(path.read_text())
    assert found["setting"]["x"] == 4
    assert found["result"] == {"square": 16}
    assert found["function"].endswith("record")


SCRIPT = """
import sys, time
from stagewise.sweeping import grid, sweep
def slow(x):
    time.sleep(0.15)
    return {"twice": 2 * x}
if __name__ == "__main__":
    print(sweep(slow, grid(x=list(range(16))), sys.argv[1], workers=1, progress=False)["twice"].tolist())
"""


def test_a_killed_sweep_keeps_what_it_finished_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "sweep")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    first = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while len(list((tmp_path / "sweep").glob("results/*.json"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    first.kill()
    first.communicate(timeout=60)  # to the end of its output, which its worker holds too: it ends with it
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "sweep" / "results").glob("*.json")}
    assert 2 <= len(kept) < 16
    second = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert second.stdout.strip() == str([2 * x for x in range(16)])
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


def test_settings_that_cannot_be_told_apart_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="comes 2 times: give seeds to repeat a run"):
        sweep(record, [{"x": 1}, {"x": 1}], tmp_path)
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
    sweep(record, grid(folder=[str(tmp_path)], x=[1, 3]), tmp_path, threads, cost=lambda each: each["x"])
    assert sorted(updates) == [1, 3]


def test_a_finished_sweep_says_so(
    tmp_path: Path, threads: concurrent.futures.Executor, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = grid(folder=[str(tmp_path)], x=[1, 3])
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
