"""Data of JSON and Parquet files come back; all else is an error that names the file and the fault."""

from pathlib import Path

import pandas as pd
import pytest

from stagewise.checkpoints import _data_files as data_files
from stagewise.checkpoints._data_files import read_json, read_parquet
from stagewise.checkpoints._writing import write

FAULTS = {
    b"": "is not valid JSON",
    b"{": "is not valid JSON",
    b"\xff\xfe": "is not valid JSON",
    b"[1]": "holds a list, expected a JSON object",
    b"1.5": "holds a number, expected a JSON object",
    b"true": "holds a boolean, expected a JSON object",
    b'"{}"': "holds a text, expected a JSON object",
    b"null": "holds nothing, expected a JSON object",
}


def test_an_object_comes_back(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"ü": [1, null], "b": {}}', encoding="utf8")
    assert read_json(tmp_path / "a.json") == {"ü": [1, None], "b": {}}


@pytest.mark.parametrize("content", FAULTS)
def test_a_fault_names_the_file_and_what_to_do(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(ValueError, match=f"{tmp_path / 'a.json'} {FAULTS[content]}.*: make it anew$"):
        read_json(tmp_path / "a.json", "make it anew")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"a.json is not there: restore it"):
        read_json(tmp_path / "a.json")


def test_a_file_may_have_a_name_that_says_more_than_its_path(tmp_path: Path) -> None:
    (tmp_path / "3f2a").write_text("[]")
    with pytest.raises(ValueError, match=r"^config.json of step10 holds a list"):
        read_json(tmp_path / "3f2a", name="config.json of step10")


def test_a_file_too_large_to_be_one_is_named_and_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "a.json", "wb") as file:
        file.truncate(2**40)
    with pytest.raises(ValueError, match=r"a.json is no file to read: it has 1099511627776 bytes"):
        read_json(tmp_path / "a.json")


@pytest.mark.parametrize(("before", "inside", "after"), [('{"n": ', "1", "}"), ("", "[", "")], ids=["digits", "depth"])
def test_numbers_of_thousands_of_digits_and_depth_are_faults_as_any(
    before: str, inside: str, after: str, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text(before + 100_000 * inside + after)
    with pytest.raises(ValueError, match=r"a.json is not valid JSON \((Exceeds the limit|maximum recursion)"):
        read_json(tmp_path / "a.json")


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
    monkeypatch.setattr(data_files, "MEMORY", 700_000)
    with pytest.raises(ValueError, match=r"bomb.parquet is no table to read: its \d+ bytes unpack to 800000: make it"):
        read_parquet(tmp_path / "bomb.parquet", "make it again")
