"""What decided a measurement is in its record."""

import dataclasses
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from stagewise.checkpoints._table_file import PROVENANCE, TableFile
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.measurement._measuring import _SLOWER
from stagewise.measurement._parts import PASSES
from stagewise.measurement._provenance import _git_revision, provenance
from stagewise.measurement._recorded import PROBES
from stagewise.measurement.engine import measure
from stagewise.probes import HeadAblation, Loss
from stagewise.task import Batch


def test_another_batch_has_another_hash() -> None:
    batch = Batch.from_tokens(torch.tensor([[1, 2, 3], [3, 2, 1]]))
    record = provenance(batch, "cuda")
    assert (record["sequences"], record["positions"], record["device"]) == (2, 2, "cuda")
    assert record["batch"] == provenance(dataclasses.replace(batch))["batch"] != provenance(batch[:1])["batch"]


def test_the_revision_is_that_of_the_repository_and_says_what_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*command: str) -> str:
        named = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *command]
        return subprocess.run(named, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.strip()

    (tmp_path / "sub").mkdir()
    assert _git_revision(str(tmp_path)) == ""
    git("init")
    (tmp_path / "sub" / "file").write_text("a")
    git("add", ".")
    git("commit", "-m", "one")
    assert _git_revision(str(tmp_path / "sub")) == f"{git('rev-parse', 'HEAD')}, changes unknown"
    monkeypatch.syspath_prepend(tmp_path)  # code of it runs here
    _git_revision.cache_clear()
    assert _git_revision(str(tmp_path / "sub")) == git("rev-parse", "HEAD")
    (tmp_path / "sub" / "file").write_text("b")
    _git_revision.cache_clear()
    assert _git_revision(str(tmp_path / "sub")) == f"{git('rev-parse', 'HEAD')} and changes"


def test_git_runs_nothing_that_a_strangers_repository_names(tmp_path: Path) -> None:
    def git(*command: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *command], cwd=tmp_path, check=True)

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "one")
    git("config", "core.fsmonitor", f"touch {tmp_path / 'written'}; false")
    _git_revision.cache_clear()
    assert _git_revision(str(tmp_path)).endswith(", changes unknown")
    assert not (tmp_path / "written").exists()
    git("status")  # the trap is one
    assert (tmp_path / "written").exists()


def test_a_table_on_disk_says_where_it_comes_from(small_run: CheckpointSeries, tmp_path: Path) -> None:
    batch = Batch.from_tokens(torch.tensor([[1, 2, 3], [3, 2, 1]]))
    measure(small_run, [Loss()], batch, save=tmp_path / "table.parquet", progress=False)
    metadata = pq.read_schema(tmp_path / "table.parquet").metadata
    assert json.loads(metadata[PROVENANCE]) == {**provenance(batch), PROBES: {"Loss": "Loss()"}}


@pytest.mark.hooked_only("native bridges have no ALiBi")
def test_what_is_measured_with_hooks_says_so(
    series_of: Callable[..., CheckpointSeries], batch: Batch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, slopes = tmp_path / "table.parquet", {"positional_embedding_type": "alibi"}
    probes = [HeadAblation(kinds=("mean",))]
    for ways, series in (("lean", [series_of()]), ("with hooks", [series_of(**slopes)])):
        measure(series, probes, batch, save=path)
        assert TableFile(path).provenance[PASSES] == ways
        assert (_SLOWER in capsys.readouterr().err) == (ways == "with hooks")
    both = [series_of(), series_of((0,), "other", **slopes)]
    measure(both, probes, batch, save=path, folder=tmp_path, progress=False)
    measure(both, probes, batch, save=path, folder=tmp_path, progress=False)
    assert TableFile(path).provenance[PASSES] == "lean at 3 of 4 checkpoints, with hooks at 1 of 4 checkpoints"
