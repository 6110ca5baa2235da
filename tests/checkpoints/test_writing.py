"""Files are whole or not there, no link is followed, and one process at a time holds a folder."""

import errno
import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from stagewise.checkpoints import _writing as writing
from stagewise.checkpoints._checksums import LIST, is_intact, listed
from stagewise.checkpoints._writing import LOCK, held, write, write_folder, write_json


def test_a_file_is_written_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = write(tmp_path / "new" / "file", lambda partial: partial.write_text("all of it"))
    assert path.read_text() == "all of it"
    assert sorted(file.name for file in path.parent.iterdir()) == [LIST, "file"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_a_write_that_breaks_leaves_the_old_file(tmp_path: Path, error: type[BaseException]) -> None:
    def save(partial: Path) -> None:
        partial.write_text("half")
        raise error("while writing")

    write(tmp_path / "file", lambda partial: partial.write_text("old"))
    with pytest.raises(error, match="while writing"):
        write(tmp_path / "file", save)
    assert {file.name for file in tmp_path.iterdir()} == {LIST, "file"}
    assert (tmp_path / "file").read_text() == "old"
    assert is_intact(tmp_path / "file")


def test_a_file_has_its_bytes_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[bool, bool, bool]] = []

    def fsync(descriptor: int) -> None:
        size, listing = os.fstat(descriptor).st_size, listed(tmp_path)
        seen.append((size == 4, "file" in listing, (tmp_path / "file").exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    write(tmp_path / "file", lambda partial: partial.write_text("four"))
    assert seen == [(True, False, False), (False, True, False)]


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "whatever"),
        RuntimeError(f"writer failed: {os.strerror(errno.ENOSPC)} (os error 28)"),
    ],
    ids=["system", "another library"],
)
def test_a_full_disk_is_called_so(tmp_path: Path, error: Exception) -> None:
    def save(partial: Path) -> None:
        partial.write_text("half")
        raise error

    with pytest.raises(OSError, match=r"the disk is full. What was there before is untouched") as caught:
        write(tmp_path / "file", save)
    assert caught.value.errno == errno.ENOSPC
    assert not list(tmp_path.iterdir())


def test_a_limit_that_a_library_names_by_number_is_called_so(tmp_path: Path) -> None:
    def save(partial: Path) -> None:
        partial.write_bytes(b"half")
        raise RuntimeError("Error while serializing: I/O error: File too large (os error 27)")

    with pytest.raises(OSError, match=r"the system allows no larger file. What was there before") as caught:
        write(tmp_path / "file", save)
    assert caught.value.errno == errno.EFBIG


def test_json_comes_back(tmp_path: Path) -> None:
    value = {"a": [1, 2.5, None], "ü": "é"}
    assert json.loads(write_json(tmp_path / "x.json", value).read_text(encoding="utf8")) == value


def test_a_planted_link_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text("untouched")
    monkeypatch.setattr("secrets.token_hex", lambda _: "guessed")
    writing._partial(tmp_path / "file").symlink_to(tmp_path)
    with pytest.raises(FileExistsError):
        write(tmp_path / "file", lambda partial: partial.with_name("secret").write_text("overwritten"))
    assert (tmp_path / "secret").read_text() == "untouched"


def test_a_link_in_the_place_of_a_file_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("untouched")
    (tmp_path / "file").symlink_to(tmp_path / "secret")
    write(tmp_path / "file", lambda partial: partial.write_text("new"))
    assert ((tmp_path / "secret").read_text(), (tmp_path / "file").read_text()) == ("untouched", "new")


@pytest.mark.parametrize("hard", [True, False])
def test_what_is_changed_in_its_place_changes_no_file_of_another_name(tmp_path: Path, hard: bool) -> None:
    (tmp_path / "secret").write_text("untouched")
    for name in (LIST, LOCK):
        (tmp_path / "run").mkdir(exist_ok=True)
        link = (tmp_path / "run" / name).hardlink_to if hard else (tmp_path / "run" / name).symlink_to
        link(tmp_path / "secret")
    with held(tmp_path / "run", "trains"):
        write(tmp_path / "run" / "file", lambda partial: partial.write_text("new"))
    assert (tmp_path / "secret").read_text() == "untouched"
    assert is_intact(tmp_path / "run" / "file")


@pytest.mark.parametrize(
    ("link", "file"),
    [
        ("tables", "tables/stages.json"),
        ("tables", "tables/parts/0123456789abcdef/settings.json"),
        ("parts/0123456789abcdef", "parts/0123456789abcdef/settings.json"),
        ("checkpoints", "checkpoints/step-00000000.safetensors"),
        ("figures", "figures/loss.svg"),
        ("restricted", "restricted/2/run.json"),
        ("anything", "anything/of/a/run"),
    ],
)
def test_nothing_is_written_through_a_link_that_leaves_a_run_folder(tmp_path: Path, link: str, file: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run" / link).parent.mkdir(parents=True)
    (tmp_path / "run" / link).symlink_to(tmp_path / "elsewhere")
    if link == "anything":
        (tmp_path / "run" / "run.json").write_text("{}")
    with pytest.raises(ValueError, match=r"leads out of .*run through a link, and nothing is written there"):
        write_json(tmp_path / "run" / file, 1)
    with pytest.raises(ValueError, match="through a link"), held((tmp_path / "run" / file).parent, "measures"):
        pass
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_run_folder_may_be_a_link_and_lie_behind_one(tmp_path: Path) -> None:
    (tmp_path / "large" / "checkpoints").mkdir(parents=True)
    (tmp_path / "checkpoints").symlink_to(tmp_path / "large" / "checkpoints")
    write_json(tmp_path / "checkpoints" / "mine" / "run.json", {})
    (tmp_path / "linked").symlink_to(tmp_path / "large" / "checkpoints" / "mine")
    (tmp_path / "large" / "checkpoints" / "mine" / "moved").mkdir()
    (tmp_path / "linked" / "tables").symlink_to("moved")  # within the folder
    assert write_json(tmp_path / "linked" / "tables" / "stages.json", {}).exists()


def of_process(path: Path, process: int) -> Path:
    """Return a folder as a process that writes this path has it."""
    name = writing._partial(path).name.replace(f"-{os.getpid()}-", f"-{process}-")
    (path.with_name(name) / "deeper").mkdir(parents=True)
    return path.with_name(name)


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    mine, left = (of_process(tmp_path / "file", process) for process in (os.getpid(), ended.pid))
    write(tmp_path / "file", lambda partial: partial.write_text(""))
    assert (mine.exists(), left.exists()) == (True, False)


def test_what_a_library_leaves_beside_its_file_goes_too(tmp_path: Path) -> None:
    def save(partial: Path) -> None:
        partial.with_name(".tmp-of-a-library").write_text("left")
        partial.write_text("whole")

    write(tmp_path / "file", save)
    assert sorted(file.name for file in tmp_path.iterdir()) == [LIST, "file"]


@pytest.mark.parametrize("umask", [0o022, 0o002, 0o077])
def test_a_written_file_is_as_open_as_any_other(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        save = functools.partial(save_file, {"weights": torch.zeros(2)})
        paths = [
            write(tmp_path / "file", save),
            write_folder(tmp_path / "new", lambda new: save(new / "file")) / "file",
        ]
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in paths] == [0o666 & ~umask] * 2


def test_a_file_system_without_modes_is_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path, mode: int) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))

    monkeypatch.setattr(Path, "chmod", refused)
    assert write(tmp_path / "file", lambda partial: partial.write_text("whole")).read_text() == "whole"


def test_a_second_writer_hears_who_is_first(tmp_path: Path) -> None:
    with held(tmp_path / "run", "trains"):
        with (
            pytest.raises(BlockingIOError, match=rf"process {os.getpid()} on .* trains since .* here. Wait until it"),
            held(tmp_path / "run", "trains"),
        ):
            pytest.fail("both hold the folder")
        (tmp_path / "run" / "file").touch()
    with held(tmp_path / "run", "trains"):
        pass
    assert {path.name for path in (tmp_path / "run").iterdir()} == {LOCK, "file"}


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from stagewise.checkpoints._writing import held\n"
        "with held(Path(sys.argv[1]), 'trains'): os._exit(9)"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    assert subprocess.run(command, check=False).returncode == 9
    with held(tmp_path, "trains"):
        pass


def test_a_new_folder_in_which_nothing_was_written_is_not_left(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError, match="nothing"), held(tmp_path / "run", "trains"):
        raise ZeroDivisionError("nothing was written")
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_a_disk_that_is_full_is_called_so_whatever_a_library_says(tmp_path: Path) -> None:
    def save(partial: Path) -> None:
        partial.symlink_to("/dev/full")
        torch.save({"weights": torch.zeros(10**5)}, partial)

    with pytest.raises(OSError, match=r"the disk is full. What was there before is untouched") as caught:
        write(tmp_path / "resume.pt", save)
    assert caught.value.errno == errno.ENOSPC
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
def test_a_folder_that_is_read_only_is_named(code: int, tmp_path: Path) -> None:
    def save(partial: Path) -> None:
        raise OSError(code, os.strerror(code), str(partial))

    with pytest.raises(PermissionError, match=r"cannot be written to: change its permissions, or copy") as caught:
        write(tmp_path / "file", save)
    assert str(tmp_path) in str(caught.value)


def test_a_folder_is_whole_listed_and_replaces_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "old").write_text("of before")
    write_folder(tmp_path / "new", lambda partial: (partial / "file").write_text("all of it"))
    assert sorted(file.name for file in (tmp_path / "new").iterdir()) == [LIST, "file"]
    assert is_intact(tmp_path / "new" / "file")
    (tmp_path / "new" / "file").write_text("all of us")
    assert not is_intact(tmp_path / "new" / "file")


def test_a_folder_that_breaks_leaves_the_old_one_and_a_full_disk_is_called_so(tmp_path: Path) -> None:
    def save(partial: Path) -> None:
        (partial / "file").write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    write_folder(tmp_path / "new", lambda partial: (partial / "file").write_text("old"))
    with pytest.raises(OSError, match="the disk is full") as full:
        write_folder(tmp_path / "new", save)
    assert full.value.filename == str(tmp_path / "new")
    assert (tmp_path / "new" / "file").read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["new"]


def test_a_link_in_the_place_of_a_folder_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "new").symlink_to(tmp_path / "elsewhere")
    write_folder(tmp_path / "new", lambda partial: (partial / "file").write_text("here"))
    assert not (tmp_path / "new").is_symlink()
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_folder_that_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    of_process(tmp_path / "new", ended.pid)
    write_folder(tmp_path / "new", lambda partial: (partial / "file").write_text("whole"))
    assert [file.name for file in tmp_path.iterdir()] == ["new"]


@pytest.mark.parametrize("days", [0, 2])
def test_who_holds_a_folder_removes_whatever_was_left_in_it_before(days: int, tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left = [of_process(tmp_path / name, ended.pid) for name in ("one", "deeper/other")]
    living = of_process(tmp_path / "one", os.getpid())
    elsewhere = of_process(tmp_path / "two", ended.pid)
    elsewhere = elsewhere.rename(str(elsewhere).replace(writing._host(), "another"))
    os.utime(elsewhere, (0, elsewhere.stat().st_mtime - days * writing.DAY))
    with held(tmp_path, "measures"):
        assert not any(path.exists() for path in left)
        assert (living.exists(), elsewhere.exists()) == (True, days == 0)


def test_what_only_looks_like_a_leftover_stays(tmp_path: Path) -> None:
    (tmp_path / ".my.own.partial").mkdir()
    write(tmp_path / "file", lambda partial: partial.write_text(""))
    with held(tmp_path, "measures"):
        assert (tmp_path / ".my.own.partial").exists()
