"""Trees: every name is compared, what was not synced is found and cut, and only what NORMAL names has another form."""

import os
from pathlib import Path

from evidence.torture import trees
from stagewise.checkpoints._checksums import LIST, record
from stagewise.checkpoints._writing import LOCK, write


def test_every_file_and_folder_is_compared_hidden_or_not(tmp_path: Path) -> None:
    write(tmp_path / "file", lambda partial: partial.write_text("same"))
    before = trees.tree(tmp_path)
    (tmp_path / ".file.host-1-00000000.partial").mkdir()
    (tmp_path / "file").write_text("other")
    assert trees.differing(trees.tree(tmp_path), before) == [".file.host-1-00000000.partial", "file"]


def test_a_lock_names_its_process_and_a_list_keeps_the_order_of_writing(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "other"]
    for folder, names in zip(folders, (("a", "b"), ("b", "a")), strict=True):
        folder.mkdir()
        (folder / LOCK).write_text(f"process {len(names[0])} of {folder.name}")
        for name in names:
            record(folder / name, name * 64)
    (folders[1] / LIST).write_text((folders[1] / LIST).read_text() + "\nabc")  # cut off by a full disk
    assert trees.differing(*map(trees.tree, folders)) == []
    record(folders[1] / "c", "c" * 64)
    assert trees.differing(*map(trees.tree, folders)) == [LIST]


def test_what_was_not_synced_is_torn_or_lost(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("as it was")
    still = trees.known(tmp_path)
    with open(tmp_path / "grown", "w") as file:
        file.write("synced")
        file.flush()
        os.fsync(file.fileno())
        state = os.fstat(file.fileno())
        synced = {**still, state.st_ino: (state.st_size, state.st_mtime_ns)}
        file.write("!" * 10)
    (tmp_path / "new").write_text("12345678")
    sizes = trees.unsynced(tmp_path, synced)
    assert sizes == {"grown": 6, "new": 0}
    trees.cut(tmp_path, sizes, 0.5)
    assert [(tmp_path / name).read_text() for name in ("old", "grown", "new")] == ["as it was", "synced!!!!!", "1234"]
    trees.cut(tmp_path, sizes, 0.0)
    assert [(tmp_path / name).read_text() for name in ("old", "grown", "new")] == ["as it was", "synced", ""]
