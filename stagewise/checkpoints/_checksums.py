"""Checksums: every file that this library writes is listed beside it, by its SHA-256, and every reader checks it."""

import contextlib
import functools
import os
import re
import stat
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from stagewise.checkpoints._digest import file_sha256

LIST = "SHA256SUMS"
"""In each folder: a line a written file, "digest  name", as sha256sum writes it; lines are only ever added."""

LINE = re.compile(r"([0-9a-f]{64})  (?!\.{1,2}$)([^/\x00-\x1f\x7f\ufffd]+)")
CUT_OFF = re.compile(r"[0-9a-f]{0,64} {0,2}")
"""A line that a full disk cut off: no damage, since the file of that name was not written."""


def record(path: Path, digest: str) -> None:
    """List a file's contents before it gets its name: a process killed between both leaves no false alarm."""
    if digest in listed(path.parent).get(path.name, ()):
        return
    own(path.parent / LIST)
    # A line that was cut off by a full disk must not swallow this one: hence the first line break.
    line = f"\n{digest}  {path.name}\n".encode()
    descriptor = os.open(path.parent / LIST, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o666)
    try:
        os.write(descriptor, line)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def own(path: Path) -> None:
    """Make a file that is changed in its place one's own: its other names, a link, or a pipe are left."""
    with contextlib.suppress(FileNotFoundError):
        if not path.is_symlink() and path.is_file() and path.lstat().st_nlink == 1:
            return
        content = b"" if path.is_symlink() or not path.is_file() else path.read_bytes()
        path.unlink()
        path.write_bytes(content)


def listed(folder: Path) -> dict[str, frozenset[str]]:
    """Return the digests that each file of a folder has been written with, none of one that nothing lists."""
    with contextlib.suppress(OSError):
        status = (folder / LIST).stat()
        if stat.S_ISREG(status.st_mode):
            return _read(folder / LIST, status.st_mtime_ns, status.st_size)
    return {}


@functools.lru_cache(maxsize=16)
def _read(path: Path, modified: int, size: int) -> dict[str, frozenset[str]]:
    digests: dict[str, set[str]] = defaultdict(set)
    for match in filter(None, map(LINE.fullmatch, _lines(path))):
        digests[match[2]].add(match[1])
    return {name: frozenset(each) for name, each in digests.items()}


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf8", errors="replace").split("\n")


def _damage_of_list(folder: Path) -> str:
    """Return the fault of a folder's list itself, which may be damaged as any file; empty if it is whole."""
    known = listed(folder)
    if bad := [each for each in _lines(folder / LIST) if not (LINE.fullmatch(each) or CUT_OFF.fullmatch(each))]:
        return f"{folder / LIST} is damaged: {bad[0][:120]!r} is no line of it"
    gone = {digest: name for name, digests in known.items() if not (folder / name).exists() for digest in digests}
    for path in sorted(folder.iterdir()) if gone else ():
        if path.name not in {LIST, *known} and path.is_file() and (name := gone.get(_sha256(path))):
            return f"{folder / LIST} is damaged: it has {path.name} under the name {name}"
    return ""


def is_intact(path: Path) -> bool:
    """Whether a file has bytes that it was written with, or is not listed, as a file from elsewhere."""
    known = listed(path.parent).get(path.name)
    return known is None or _sha256(path) in known


def check(path: Path, fix: str) -> None:
    """Refuse a file with other bytes than it was written with."""
    if not is_intact(path):
        raise ValueError(
            f"{path} is damaged: its {path.stat().st_size} bytes do not have the checksum in {LIST} beside it. {fix}"
        )


def faults(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield the damaged lists of a folder and all folders in it, then the damaged files, each with what is wrong."""
    lists = sorted(path for path in folder.rglob(LIST) if path.is_file())
    for path in lists:
        if why := _damage_of_list(path.parent):
            yield path, why
    for path in (each.with_name(name) for each in lists for name in sorted(listed(each.parent))):
        if path.is_file() and not is_intact(path):
            yield path, f"its bytes do not have the checksum in {LIST} beside it"


def remove_damaged(folder: Path) -> None:
    """Remove the damaged files of a folder of intermediate results, which are then made again; warnings name them."""
    for path, why in faults(folder):
        if path.name != LIST:
            warnings.warn(f"{path} is damaged: it is made again", stacklevel=2)
            path.unlink()
            continue
        warnings.warn(f"{why}. What it does not list is made again", stacklevel=2)
        known = listed(path.parent)
        for other in path.parent.iterdir():
            if other.is_file() and other.name not in {LIST, *known} and not other.name.startswith("."):
                other.unlink()
        path.unlink()
        for name, digests in known.items():
            for digest in digests if (path.parent / name).exists() else ():
                record(path.with_name(name), digest)


def _sha256(path: Path) -> str:
    status = path.stat()
    return _sha256_of(path, status.st_mtime_ns, status.st_size, status.st_ino)


@functools.lru_cache(maxsize=4096)
def _sha256_of(path: Path, modified: int, size: int, inode: int) -> str:
    return file_sha256(path)
