"""The files of a folder after a kill: what was not synced is torn or lost, and all of them are compared."""

import re
from collections.abc import Mapping
from pathlib import Path

from stagewise.checkpoints._checksums import LINE, LIST
from stagewise.checkpoints._writing import LOCK

Known = Mapping[int, tuple[int, int]]
"""Inode -> size and time of the last change, in nanoseconds."""

Tree = Mapping[str, bytes | None]
"""Name -> contents; None of a folder."""


def _names_of_list(content: bytes) -> bytes:
    lines = {line for line in content.decode(errors="replace").split("\n") if LINE.fullmatch(line)}
    return "\n".join(sorted(lines)).encode()


NORMAL = {
    LOCK: (lambda _: b"", "it names the process that held the folder last, and since when"),
    LIST: (_names_of_list, "lines are only ever added: the order is that of writing, and a line may be cut off"),
}
"""Name of a file -> what of its contents must be the same, and why not all of it must. All other bytes must be."""


def tree(folder: Path) -> dict[str, bytes | None]:
    """Return all files and folders in a folder, of no name less, in their normal form."""
    found: dict[str, bytes | None] = {}
    for path in folder.rglob("*"):
        normal = NORMAL[path.name][0] if path.name in NORMAL else bytes
        name = path.relative_to(folder).as_posix()
        found[name] = None if path.is_dir() else normal(path.read_bytes())
    return found


def differing(one: Tree, other: Tree) -> list[str]:
    """Name what is in one of two trees alone, or differs."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name, name) != other.get(name, name))


def known(folder: Path) -> dict[int, tuple[int, int]]:
    """Return the files of a folder as they are: what a power cut cannot change any more."""
    states = (path.stat() for path in folder.rglob("*") if path.is_file())
    return {state.st_ino: (state.st_size, state.st_mtime_ns) for state in states}


def unsynced(folder: Path, synced: Known) -> dict[str, int]:
    """Return the files that were written since they were last synced, with the size that they had then."""
    sizes = {}
    for path in sorted(folder.rglob("*")):
        state = path.stat()
        size, time = synced.get(state.st_ino, (0, 0))
        if path.is_file() and (size, time) != (state.st_size, state.st_mtime_ns) and state.st_size:
            sizes[path.relative_to(folder).as_posix()] = min(size, state.st_size)
    return sizes


def cut(folder: Path, sizes: Mapping[str, int], part: float) -> None:
    """Keep a part of what was written to files since they were synced: 0 loses it, a half tears it."""
    for name, size in sizes.items():
        path = folder / name
        content = path.read_bytes()
        path.write_bytes(content[: size + int(part * (len(content) - size))])


def without_processes(name: str) -> str:
    """Return a name without the process and the random part of a temporary folder."""
    return re.sub(r"-\d+-[0-9a-f]{8}\.partial", ".partial", name)
