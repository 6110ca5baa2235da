"""The reader of JSON files: an object comes back, everything else is an error that names the file and the fault."""

from pathlib import Path

import pytest

from stagewise.checkpoints._json_files import read_json

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
