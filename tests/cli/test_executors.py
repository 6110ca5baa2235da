"""Where a sweep's runs go: named by a text, refused where it says nothing."""

import glob
import sys
from pathlib import Path

import pytest

from stagewise.cli._executors import JOBS, executor_named


def double(x: int) -> int:
    return 2 * x


def test_nothing_named_is_left_to_the_sweep(tmp_path: Path) -> None:
    with executor_named(None, tmp_path) as executor:
        assert executor is None


@pytest.mark.parametrize("text", ["slurm", "dask", "dask:", ""])
def test_another_name_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--executor is dask:ADDRESS, or submitit"), executor_named(text, tmp_path):
        pass


def test_the_address_of_a_scheduler_is_taken(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster,
        executor_named(f"dask:{cluster.scheduler_address}", tmp_path) as executor,
    ):
        assert executor is not None
        assert executor.submit(double, 4).result() == 8


def test_parameters_of_submitit_are_passed_on_and_jobs_lie_hidden_in_the_sweeps_folder(tmp_path: Path) -> None:
    pytest.importorskip("submitit", reason="the extra `cluster` is not installed")
    with executor_named("submitit:timeout_min=7", tmp_path) as executor:
        assert executor is not None
        job = executor.submit(double, 4)
    assert job.result() == 8
    assert [path.name for path in tmp_path.iterdir()] == [JOBS]
    assert glob.glob(f"{tmp_path}/*/") == []
    bad = executor_named("submitit:timeout", tmp_path)
    with pytest.raises(ValueError, match=r"key=value,key=value,...; got 'timeout'"), bad:
        pass


def test_what_is_not_installed_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "submitit", None)
    missing = executor_named("submitit", tmp_path)
    with pytest.raises(ValueError, match=r"submitit is not installed: pip install 'stagewise\[cluster\]'"), missing:
        pass
