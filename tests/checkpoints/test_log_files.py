"""Files of curves: the same ones, in every form."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from stagewise.checkpoints.logged_curves import read_log
from tests.checkpoints.test_logged_curves import LOG

WRITE: dict[str, Callable[[Path], Any]] = {
    "log.csv": lambda path: LOG.to_csv(path, index=False),
    "log.parquet": LOG.to_parquet,
    "log.jsonl": lambda path: LOG.to_json(path, orient="records", lines=True),
    "log.json": lambda path: path.write_text(json.dumps(LOG.to_dict("list"))),
}


@pytest.mark.parametrize("name", WRITE)
def test_a_file_gives_the_curves_of_its_columns_of_numbers(name: str, tmp_path: Path) -> None:
    WRITE[name](tmp_path / name)
    pd.testing.assert_frame_equal(read_log(tmp_path / name), read_log(LOG, run="log"))


@pytest.mark.parametrize("damage", [lambda held: held[: len(held) // 2], lambda held: held.replace(b"\1", b"\2")])
def test_damaged_arrays_are_called_so(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    np.savez(tmp_path / "log.npz", step=np.arange(100), loss=np.arange(100.0))
    (tmp_path / "log.npz").write_bytes(damage((tmp_path / "log.npz").read_bytes()))
    with pytest.raises(ValueError, match=r"log\.npz is cut off or damaged: "):
        read_log(tmp_path / "log.npz")


def test_a_damaged_page_of_parquet_is_told_with_the_name_of_the_file(tmp_path: Path) -> None:
    LOG.to_parquet(tmp_path / "log.parquet")
    held = bytearray((tmp_path / "log.parquet").read_bytes())
    held[20:60] = bytes(40)
    (tmp_path / "log.parquet").write_bytes(held)
    with pytest.raises(ValueError, match=r"log\.parquet holds no columns of curves that can be read: "):
        read_log(tmp_path / "log.parquet")


@pytest.mark.parametrize(("separator", "decimal"), [("\t", "."), (";", "."), (";", ","), ("\t", ",")])
def test_columns_may_be_separated_otherwise(separator: str, decimal: str, tmp_path: Path) -> None:
    for name in ("log.tsv", "log.csv"):
        LOG.to_csv(tmp_path / name, sep=separator, decimal=decimal, index=False)
        pd.testing.assert_frame_equal(read_log(tmp_path / name), read_log(LOG, run="log"))
