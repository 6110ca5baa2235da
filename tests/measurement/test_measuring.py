"""Several checkpoints at once: the same rows in the same order, on any executor; a clear word where it cannot be."""

import concurrent.futures
import dataclasses
import logging
import os
import pickle
import re
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from stagewise.architectures import minimal
from stagewise.checkpoints.series import CheckpointSeries, State, open_series
from stagewise.measurement._checkpoint import Plan
from stagewise.measurement._measuring import forecast
from stagewise.measurement.engine import measure
from stagewise.probe import AbstractProbe, Reading, View
from stagewise.probes import HeadAblation, Loss
from stagewise.recipe import Recipe, TrainPlan
from stagewise.schedules import linear
from stagewise.tasks import MarkovChain
from stagewise.training import train
from tests.fixtures.runs import AtOnce

TASK = MarkovChain(d_vocab=4, spans=(1, 1), length=4)
BATCH = TASK.probe_batch(6, seed=0)
OTHERS = "the other 3 checkpoints take about 0 min"
PROBES = [Loss(), HeadAblation(kinds=("mean",))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run")
    plan = TrainPlan(steps=3, batch_size=8, save=linear(1, 3), learning_rate=0.1)
    train(Recipe(TASK, minimal(TASK.d_vocab, TASK.n_ctx, 2), plan), path, progress=False)
    return path


def test_a_probe_has_rows_at_its_own_checkpoints_alone(folder: Path, tmp_path: Path) -> None:
    series, ablation = open_series(folder), HeadAblation(kinds=("mean",)).at({0, 2, 5})
    some, every = (measure(series, [Loss(), each], BATCH, progress=False) for each in (ablation, PROBES[1]))
    assert set(some[some["probe"] == "HeadAblation"]["step"]) == {0, 2}
    assert set(some[some["probe"] == "Loss"]["step"]) == {0, 1, 2, 3}
    wanted = (every["probe"] == "Loss") | every["step"].isin((0, 2))
    pd.testing.assert_frame_equal(some, every[wanted].reset_index(drop=True))
    assert set(measure(series, [ablation], BATCH, progress=False)["step"]) == {0, 2}
    for probe in (ablation, PROBES[1]):  # rows of one schedule are none of another one's
        again = measure(series, [Loss(), probe], BATCH, folder=tmp_path, progress=False)
        pd.testing.assert_frame_equal(again, some if probe is ablation else every)


def test_a_probe_of_none_of_the_checkpoints_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"HeadAblation.at: the series .* has no checkpoint of its steps"):
        measure(open_series(folder), [HeadAblation().at({7, 5})], BATCH, progress=False)


@pytest.mark.parametrize("fixture", ["no_workers", pytest.param("folder", marks=pytest.mark.slow)])
def test_two_workers_give_the_rows_of_one_in_the_same_order_and_say_what_they_take(
    fixture: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    request.getfixturevalue(fixture)  # two processes, or this one in their place
    series = open_series(folder)
    monkeypatch.setattr("stagewise.measurement._measuring._WORTH_SAYING", 0)
    several = measure(series, PROBES, BATCH, workers=2)
    assert capsys.readouterr().err.count(OTHERS) == 1
    pd.testing.assert_frame_equal(several, measure(series, PROBES, BATCH, progress=False))


def test_a_slow_checkpoint_says_which_probe_is_read_before_it_is_measured(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    series = open_series(folder)
    measure(series, PROBES, BATCH)
    assert "step 2:" not in capsys.readouterr().err
    monkeypatch.setattr("stagewise.measurement._checkpoint.SLOW", 0)
    measure(series, PROBES, BATCH)
    said = capsys.readouterr().err
    assert re.search(r"step 2: +0%.*0/2 .*Loss", said)
    assert re.search(r"step 2: +50%.*1/2 .*HeadAblation", said)
    measure(series, PROBES, BATCH, progress=False)
    assert capsys.readouterr().err == ""


def test_any_executor_does(folder: Path) -> None:
    series = open_series(folder)
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        table = measure(series, PROBES, BATCH, progress=False, executor=executor)
    pd.testing.assert_frame_equal(table, measure(series, PROBES, BATCH, progress=False))


MEETING = threading.Barrier(2)


class MeetsAnother(HeadAblation):
    """Runs its edited passes while another checkpoint is measured too."""

    def read(self, view: View) -> list[Reading]:
        MEETING.wait()
        return super().read(view)


def test_threads_give_the_rows_of_one(folder: Path) -> None:
    series = open_series(folder)
    with concurrent.futures.ThreadPoolExecutor(2) as executor:
        table = measure(series, [MeetsAnother(kinds=("mean",))], BATCH, progress=False, executor=executor)
    expected = measure(series, [HeadAblation(kinds=("mean",))], BATCH, progress=False)
    pd.testing.assert_frame_equal(table.drop(columns="probe"), expected.drop(columns="probe"))


def test_what_only_this_process_can_read_is_refused_by_others() -> None:
    made, lock = minimal(TASK.d_vocab, TASK.n_ctx, 2), threading.Lock()

    def load(step: int) -> State:
        with lock:
            return {}

    series = CheckpointSeries("here", made, (0, 1), load)
    with pytest.raises(ValueError, match=r"'here'.*cannot be handed to another process.*workers=1"):
        measure(series, PROBES, BATCH, progress=False, workers=2)


def test_what_the_others_take_is_said_once_after_the_first(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def said(**named: Any) -> int:
        measure(open_series(folder), PROBES, BATCH, folder=tmp_path, **named)
        return capsys.readouterr().err.count(OTHERS)

    monkeypatch.setattr("stagewise.measurement._measuring._WORTH_SAYING", 0)
    assert said(progress=False, resamples=10) == 0
    assert said(resamples=20) == 1
    assert said(resamples=20) == 0  # all rows are there
    with AtOnce() as executor:
        assert said(resamples=30, executor=executor) == 0  # of how many processes is not known
        assert said(resamples=40, executor=executor, workers=2) == 1


def test_no_workers_are_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="at least one worker, got 0"):
        measure(open_series(folder), PROBES, BATCH, progress=False, workers=0)


@dataclasses.dataclass(frozen=True)
class WaitsForTheNext(AbstractProbe):
    """Reads the first checkpoint once the second one's weights are asked for."""

    asked: threading.Event

    def read(self, view: View) -> list[Reading]:
        assert view.step > 0 or self.asked.wait(60), "the next checkpoint is not read meanwhile"
        return [Reading("batch", torch.zeros(len(view.batch)), "nothing")]


def test_the_next_checkpoint_is_read_while_one_is_measured(folder: Path) -> None:
    series, asked = open_series(folder), threading.Event()

    def load(step: int) -> State:
        if step == series.steps[1]:
            asked.set()
        return series.load(step)

    ahead = dataclasses.replace(series, load=load)
    table = measure(ahead, [WaitsForTheNext(asked)], BATCH, progress=False)
    assert list(table["step"]) == list(series.steps)


def test_what_workers_are_handed_holds_the_batch_once() -> None:
    architecture = minimal(TASK.d_vocab, TASK.n_ctx, 2)
    whole, sliced = (len(pickle.dumps(Plan(architecture, PROBES, BATCH, slices))) for slices in (1, 6))
    assert sliced == whole


def test_the_time_of_the_checkpoints_left_is_said_from_a_minute_on() -> None:
    assert forecast(10.0, 5, 1) is None
    assert forecast(10.0, 6, 1) is not None
    assert forecast(10.0, 6, 2) is None
    assert str(forecast(10.0, 60, 1)).startswith("the other 60 checkpoints take about 10 min; `--without PROBE`")
    assert "about 5 min" in str(forecast(10.0, 60, 2))


def test_the_workers_of_a_cluster_do(folder: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
    here = measure(open_series(folder), PROBES, BATCH, progress=False)
    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        there = measure(open_series(folder), PROBES, BATCH, progress=False, executor=client.get_executor())
    pd.testing.assert_frame_equal(there, here)


@pytest.mark.slow
def test_the_checkpoints_of_a_lost_worker_are_measured_by_another(folder: Path, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
    here = measure(open_series(folder), PROBES, BATCH, progress=False)
    options = {"n_workers": 3, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": logging.CRITICAL}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        workers = [*client.run(os.getpid).values()]
        killer = threading.Thread(target=kill_when_measuring, args=(tmp_path, workers[0]))
        killer.start()
        executor = client.get_executor()
        there = measure(open_series(folder), PROBES, BATCH, folder=tmp_path, progress=False, executor=executor)
        killer.join()
        assert workers[0] not in client.run(os.getpid).values()
    pd.testing.assert_frame_equal(there, here)


def kill_when_measuring(folder: Path, worker: int) -> None:
    """Kill a worker once rows of any checkpoint are there: it has begun one by then."""
    while not list(folder.glob("*/step-*.parquet")):
        time.sleep(0.01)
    os.kill(worker, signal.SIGKILL)
