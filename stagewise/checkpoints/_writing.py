"""Writing that never leaves half a file, and the lock that lets one process at a time write into a folder."""

import contextlib
import errno
import json
import math
import os
import platform
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from stagewise.checkpoints import _checksums as checksums
from stagewise.checkpoints._digest import file_sha256

LOCK = ".lock"
"""In a folder that one process at a time writes into; says which. It stays when the process ends, unlocked."""

INSIDE = (
    *("tables", "parts", "figures", "checkpoints", "states", "restricted", "interventions", "exports", ".results"),
)
"""Folders that lie in a run folder, or in that of what was measured elsewhere."""

OF_EACH = ("parts", "restricted", "interventions", "exports")
"""Those of them that hold a folder for each measurement or run."""

RECORDS = ("run.json", "analysis.json")
DAY = 86_400.0

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)
PROBE = b"\0" * 2**16
"""Appended to a file that a library could not write, to hear the reason from the system."""


def write(path: Path, save: Callable[[Path], object]) -> Path:
    """Write a file so that it is complete or as before: elsewhere first, synced, listed, and no link followed."""
    with _in_its_place(path) as partial:
        save(partial)
        _settle(partial, path)
    return path


def write_json(path: Path, value: Any) -> Path:
    """Write plain data as indented JSON."""
    return write(path, lambda partial: partial.write_text(json.dumps(value, indent=2) + "\n", encoding="utf8"))


def write_folder(path: Path, save: Callable[[Path], object]) -> Path:
    """Write a folder under a temporary name of its own, sync its files, list their checksums in it and rename it. The
    folder is complete, or as it was before; what was there under its name is replaced, and no link followed.
    """
    with _in_its_place(path) as partial:
        partial.mkdir()
        save(partial)
        for written in sorted(filter(Path.is_file, partial.rglob("*"))):
            _settle(written, written)
        _remove(path)
    return path


def check_inside(path: Path) -> None:
    """Refuse to write where a link within a run folder leads out of it; the folder itself may be one."""
    place = root = Path(os.path.abspath(path)).parent
    while root.name in INSIDE or root.parent.name in OF_EACH:
        root = root.parent
    above = (each for each in reversed(root.parents) if any(os.path.exists(each / name) for name in RECORDS))
    root = next(above, root)
    if not Path(os.path.realpath(place)).is_relative_to(os.path.realpath(root)):
        out = f"{place} leads out of {root} through a link, and nothing is written there"
        raise ValueError(f"{out}: put a folder in its place, or choose another folder")


@contextlib.contextmanager
def _in_its_place(path: Path) -> Iterator[Path]:
    """Give a place in a temporary folder beside a path, gone after any error; what is written there is moved."""
    check_inside(path)
    place = _partial(path) / path.name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path.parent)
        place.parent.mkdir()
        yield place
        os.replace(place, path)
    except Exception as reason:
        if (explained := _explained(reason, path, place)) is not None:
            raise explained from reason
        raise
    finally:
        with contextlib.suppress(OSError):
            _remove(place.parent)


def _settle(written: Path, path: Path) -> None:
    """Give a written file the mode of a new one, sync it, and list its checksum under the path that it will have."""
    with contextlib.suppress(OSError):  # of a file system without modes
        written.chmod(written.parent.stat().st_mode & 0o666)  # safetensors closes its files to everybody else
    with open(written, "rb+") as file:
        os.fsync(file.fileno())
    checksums.record(path, file_sha256(written))


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.{_host()}-{os.getpid()}-{secrets.token_hex(4)}.partial")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _host() -> str:
    return "".join(filter(str.isalnum, platform.node())) or "host"


LEFTOVER = re.compile(r"\..+\.(?P<host>[^.]+)-(?P<process>\d+)-[0-9a-f]{8}\.partial")
"""The name of a temporary folder: see `_partial`."""


def remove_leftovers(folder: Path, before: float = math.inf, within: bool = False) -> None:
    """Remove the temporary folders that killed processes left; another machine's, only if they are a day older."""
    for leftover in (folder.rglob if within else folder.glob)(".*.partial"):
        match = LEFTOVER.fullmatch(leftover.name)
        with contextlib.suppress(OSError):  # it is gone meanwhile
            if match and match["host"] == _host():
                ended = not _is_running(int(match["process"]))
            else:
                ended = leftover.lstat().st_mtime < min(before, time.time()) - DAY
            if match and ended and leftover.lstat().st_mtime < before:
                _remove(leftover)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (OSError, OverflowError) as reason:
        return isinstance(reason, OSError) and not isinstance(reason, ProcessLookupError)  # somebody else's
    return True


def _explained(reason: Exception, path: Path, place: Path) -> OSError | None:
    """Return the error that says what the system refused, None where the reason is another."""
    if isinstance(reason, OSError):
        code = reason.errno
    else:  # libraries in Rust write the system's number into the text
        named = re.search(r"\(os error (\d+)\)", str(reason))
        code = int(named[1]) if named else _refusal(place)
    if code in FULL or os.strerror(errno.ENOSPC) in str(reason):
        what = "the disk is full" if code != errno.EFBIG else "the system allows no larger file"
        fix = "free some space and run the same command again, it resumes from the last checkpoint"
        told = f"{what}. What was there before is untouched: {fix}"
        return OSError(errno.ENOSPC if code is None else code, told, str(path))
    if code in READ_ONLY:
        fix = f"{path.parent} cannot be written to: change its permissions, or copy the folder and give the copy"
        return PermissionError(code, fix, str(path))
    return None


def _refusal(place: Path) -> int | None:
    """Return why the system takes no more of a file: safetensors has it in its own error, torch's writer loses it."""
    try:
        with open(place / "probe" if place.is_dir() else place, "ab") as file:
            file.write(PROBE)
            file.flush()
            os.fsync(file.fileno())
    except OSError as refused:
        return None if refused.errno == errno.ENOENT else refused.errno
    return None


@contextlib.contextmanager
def held(folder: Path, what: str) -> Iterator[None]:
    """Hold a folder while writing into it: one process at a time. A folder that is read-only needs no holding."""
    path, is_new = folder / LOCK, not folder.exists()
    check_inside(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        checksums.own(path)
        lock = FileLock(path, blocking=False)
        lock.acquire()
    except Timeout:
        owner = path.read_text(encoding="utf8", errors="replace").strip() or "another process"
        fix = "Wait until it has ended and run the same command again, or choose another folder"
        raise BlockingIOError(errno.EAGAIN, f"{owner} here. {fix}", str(folder)) from None
    except OSError as reason:
        if reason.errno not in READ_ONLY:
            raise
        yield
        return
    try:
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        remove_leftovers(folder, before=time.time(), within=True)
        path.write_text(f"process {os.getpid()} on {platform.node()} {what} since {since}\n", encoding="utf8")
        yield
    finally:
        if is_new and [each.name for each in folder.glob("*")] == [LOCK]:
            path.unlink()
            folder.rmdir()
        lock.release()
