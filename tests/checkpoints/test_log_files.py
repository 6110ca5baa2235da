"""Files of curves: the same ones, in every form."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


@pytest.mark.parametrize(("separator", "decimal"), [("\t", "."), (";", "."), (";", ","), ("\t", ",")])
def test_columns_may_be_separated_otherwise(separator: str, decimal: str, tmp_path: Path) -> None:
    for name in ("log.tsv", "log.csv"):
        LOG.to_csv(tmp_path / name, sep=separator, decimal=decimal, index=False)
        pd.testing.assert_frame_equal(read_log(tmp_path / name), read_log(LOG, run="log"))
