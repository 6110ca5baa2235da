"""What decided a measurement is in its record."""

import dataclasses
import json
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import torch

from stagewise.checkpoints.series import CheckpointSeries
from stagewise.measurement.engine import measure
from stagewise.measurement.parts import PROVENANCE
from stagewise.measurement.provenance import git_revision, provenance
from stagewise.probes import Loss
from stagewise.task import Batch


def test_another_batch_has_another_hash() -> None:
    batch = Batch.from_tokens(torch.tensor([[1, 2, 3], [3, 2, 1]]))
    record = provenance(batch, "cuda")
    assert (record["sequences"], record["positions"], record["device"]) == (2, 2, "cuda")
    assert record["batch"] == provenance(dataclasses.replace(batch))["batch"] != provenance(batch[:1])["batch"]


def test_the_revision_is_that_of_the_repository_and_says_what_differs(tmp_path: Path) -> None:
    def git(*command: str) -> str:
        named = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *command]
        return subprocess.run(named, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.strip()

    (tmp_path / "sub").mkdir()
    assert git_revision(str(tmp_path)) == ""
    git("init")
    (tmp_path / "sub" / "file").write_text("a")
    git("add", ".")
    git("commit", "-m", "one")
    assert git_revision(str(tmp_path / "sub")) == git("rev-parse", "HEAD")
    (tmp_path / "sub" / "file").write_text("b")
    git_revision.cache_clear()
    assert git_revision(str(tmp_path / "sub")) == f"{git('rev-parse', 'HEAD')} and changes"


def test_a_table_on_disk_says_where_it_comes_from(small_run: CheckpointSeries, tmp_path: Path) -> None:
    batch = Batch.from_tokens(torch.tensor([[1, 2, 3], [3, 2, 1]]))
    measure(small_run, [Loss()], batch, save=tmp_path / "table.parquet", progress=False)
    metadata = pq.read_schema(tmp_path / "table.parquet").metadata
    assert json.loads(metadata[PROVENANCE]) == provenance(batch)
