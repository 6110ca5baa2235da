"""Parquet files: read as they were written, and named where they are damaged."""

from pathlib import Path

import pandas as pd
import pytest

from stagewise.checkpoints import _parquet_files as parquet_files
from stagewise.checkpoints._parquet_files import read_parquet
from stagewise.checkpoints._writing import write

FRAME = pd.DataFrame({"step": [1, 2], "loss": [0.5, 0.25]})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "table.parquet", FRAME.to_parquet)


def test_a_whole_file_is_read(path: Path) -> None:
    pd.testing.assert_frame_equal(read_parquet(path, "make it again"), FRAME)


def test_one_that_is_gone_is_named_with_what_to_do(path: Path) -> None:
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"table.parquet is not there: make it again"):
        read_parquet(path, "make it again")


def test_a_flipped_bit_is_noticed(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"table.parquet is damaged.*make it again"):
        read_parquet(path, "make it again")


def test_a_foreign_file_that_is_no_parquet_is_named(tmp_path: Path) -> None:
    (tmp_path / "other.parquet").write_bytes(b"no table")
    with pytest.raises(ValueError, match=r"other.parquet is truncated or damaged"):
        read_parquet(tmp_path / "other.parquet", "make it again")


def test_a_file_that_unpacks_to_more_than_memory_is_named_and_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pd.DataFrame({"step": [0] * 100_000}).to_parquet(tmp_path / "bomb.parquet", index=False)
    monkeypatch.setattr(parquet_files, "MEMORY", 700_000)
    with pytest.raises(ValueError, match=r"bomb.parquet is no table to read: its \d+ bytes unpack to 800000: make it"):
        read_parquet(tmp_path / "bomb.parquet", "make it again")
