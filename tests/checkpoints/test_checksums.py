"""Checksums: what was written is listed, and a changed bit anywhere is noticed."""

import random
import subprocess
from pathlib import Path

import pytest

from stagewise.checkpoints._checksums import (
    LIST,
    check,
    faults,
    is_intact,
    listed,
    record,
    remove_damaged,
)
from stagewise.checkpoints._digest import file_sha256
from stagewise.checkpoints._writing import write


def put(path: Path, content: str) -> Path:
    return write(path, lambda partial: partial.write_text(content))


def flip(path: Path, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def test_the_list_is_what_sha256sum_checks(tmp_path: Path) -> None:
    put(tmp_path / "a", "one")
    put(tmp_path / "b file", "two")
    done = subprocess.run(["sha256sum", "--check", LIST], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["a: OK", "b file: OK"]


def test_any_bit_that_changes_is_noticed_and_named(tmp_path: Path) -> None:
    path, draws = put(tmp_path / "inside" / "file", "some content"), random.Random(0)
    for bit in draws.sample(range(8 * 12), 20):
        flip(path, bit)
        with pytest.raises(ValueError, match=r"file is damaged: its 12 bytes .* in SHA256SUMS beside it. Delete it$"):
            check(path, "Delete it")
        assert [each for each, _ in faults(tmp_path)] == [path]
        flip(path, bit)
        check(path, "Delete it")


def test_a_file_that_nothing_lists_is_from_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("from elsewhere")
    assert is_intact(tmp_path / "file")
    put(tmp_path / "other", "ours")
    assert is_intact(tmp_path / "file")
    assert not [*faults(tmp_path)]


def test_a_process_killed_before_the_file_has_its_name_leaves_no_false_alarm(tmp_path: Path) -> None:
    path = put(tmp_path / "file", "old")
    record(path, "0" * 64)  # of what was never renamed
    check(path, "")
    put(path, "new")
    check(path, "")


def test_a_line_that_was_cut_off_spoils_no_other(tmp_path: Path) -> None:
    put(tmp_path / "a", "one")
    with open(tmp_path / LIST, "ab") as file:
        file.write(b"0123456789abcdef  b")
    put(tmp_path / "b", "two")
    assert is_intact(tmp_path / "a")
    assert file_sha256(tmp_path / "b") in listed(tmp_path)["b"]


def test_writing_the_same_again_adds_no_line(tmp_path: Path) -> None:
    put(tmp_path / "a", "one")
    before = (tmp_path / LIST).read_bytes()
    put(tmp_path / "a", "one")
    assert (tmp_path / LIST).read_bytes() == before


def test_a_list_of_any_bytes_is_read(tmp_path: Path) -> None:
    path = put(tmp_path / "file", "content")
    size = (tmp_path / LIST).stat().st_size
    for bit in random.Random(1).sample(range(8 * size), 30):
        flip(tmp_path / LIST, bit)
        is_intact(path)
        flip(tmp_path / LIST, bit)
    assert is_intact(path)


def test_any_bit_that_changes_in_a_list_is_noticed_in_it_or_in_what_it_lists(tmp_path: Path) -> None:
    for name in ("a", "batch-0.npy", "settings.json"):
        put(tmp_path / name, f"content of {name}")
    assert not [*faults(tmp_path)]
    content = (tmp_path / LIST).read_bytes()
    last = 8 * (len(content) - 1)  # the line break at the end may become a space: nothing is lost
    for bit in range(8, last, 7):
        flip(tmp_path / LIST, bit)
        assert [*faults(tmp_path)], (bit, content[bit // 8 - 4 : bit // 8 + 4])
        flip(tmp_path / LIST, bit)


def test_what_a_damaged_list_no_longer_vouches_for_is_made_again_and_nothing_else(tmp_path: Path) -> None:
    kept, lost = put(tmp_path / "kept", "one"), put(tmp_path / "lost.npy", "two")
    (tmp_path / LIST).write_bytes((tmp_path / LIST).read_bytes().replace(b"lost.npy", b"lost/npy"))
    with pytest.warns(UserWarning, match=r"SHA256SUMS is damaged: '.*lost/npy' is no line of it"):
        remove_damaged(tmp_path)
    assert (kept.exists(), lost.exists()) == (True, False)
    assert listed(tmp_path).keys() == {"kept"}
    assert not [*faults(tmp_path)]


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "a/b", ".", ".."])
def test_a_list_names_files_beside_it_alone(name: str, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("of somebody else")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / LIST).write_text(f"{'0' * 64}  {name}\n")
    assert [path for path, _ in faults(tmp_path / "folder")] == [tmp_path / "folder" / LIST]
