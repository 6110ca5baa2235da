"""A hook on every file operation in a folder, whichever library makes it: `operations.c`, loaded before all others."""

import ctypes
import mmap
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

SOURCE = Path(__file__).with_name("operations.c")
MEMORY = "STAGEWISE_OPERATIONS"
"""In the environment: the file of the memory that the hook shares."""

NEVER = -1
"""The number of no operation."""

_PATH, _SYNCS = 4096, 65536


class _Synced(ctypes.Structure):
    _fields_ = (
        ("inode", ctypes.c_ulong),
        *((name, ctypes.c_long) for name in ("size", "seconds", "nanoseconds")),
    )


class _Shared(ctypes.Structure):
    """The memory, laid out as in `operations.c`."""

    _fields_ = (
        *((name, ctypes.c_long) for name in ("armed", "target", "signal", "count", "syncs")),
        ("folder", ctypes.c_char * _PATH),
        ("operation", ctypes.c_char * (2 * _PATH)),
        ("written", ctypes.c_char * _PATH),
        ("synced", _Synced * _SYNCS),
    )


def hooked(module: str) -> "Hook":
    """Return the hook of this process; a process without one becomes another that runs the module with it."""
    if MEMORY not in os.environ:
        built = Path(tempfile.mkdtemp(prefix="torture-"))
        library, memory = built / "operations.so", built / "memory"
        subprocess.run(["cc", "-std=gnu11", "-O1", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True)
        memory.write_bytes(bytes(ctypes.sizeof(_Shared)))
        environment = {**os.environ, "LD_PRELOAD": str(library), MEMORY: str(memory)}
        os.execve(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]], environment)
    return Hook(Path(os.environ[MEMORY]))


class Hook:
    """The operations of a command in a folder: counted, and the command signalled before one of them."""

    def __init__(self, memory: Path) -> None:
        with open(memory, "r+b") as file:
            self._shared = _Shared.from_buffer(mmap.mmap(file.fileno(), 0))

    def before(self, folder: Path, place: int, signal: int) -> Callable[[], None]:
        """Return what a child calls first, so that its whole group is signalled before an operation in the folder."""

        def arm() -> None:
            shared = self._shared
            shared.target, shared.signal, shared.count, shared.syncs = place, signal, 0, 0
            shared.folder, shared.operation, shared.written = str(folder).encode(), b"", b""
            shared.armed = 1

        return arm

    def disarm(self) -> None:
        """Count no more, in any process."""
        self._shared.armed = 0

    @property
    def count(self) -> int:
        """The number of operations so far."""
        return int(self._shared.count)

    @property
    def operation(self) -> str:
        """The operation before which a command was signalled, as "rename run/report.html"; empty if it was not."""
        return bytes(self._shared.operation).decode(errors="replace")

    def synced(self) -> dict[int, tuple[int, int]]:
        """Return the size and the time of change of each file when it was last synced, by inode."""
        if self._shared.syncs > _SYNCS:
            raise OverflowError(f"a command syncs {self._shared.syncs} files, and {_SYNCS} are kept")
        each = self._shared.synced[: self._shared.syncs]
        return {one.inode: (one.size, one.seconds * 10**9 + one.nanoseconds) for one in each}
