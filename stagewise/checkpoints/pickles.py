"""What is in a file of `torch.save`, read without running any of it: checksums, and the names that it would call.

`pickletools` reads the pickles. torch's own list, `get_unsafe_globals_in_checkpoint`, is of zip archives of pickle
protocol 2 alone. fickling names nothing in a damaged file, and nothing in one that is long.
"""

import contextlib
import pickletools
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RUNS_CODE = re.compile(
    r"(__builtin__|builtins)\.(eval|exec|execfile|compile|getattr|setattr|delattr|__import__|open|input|breakpoint"
    r"|globals|vars|apply|map|filter)|(os|posix|nt|sys|subprocess|runpy|socket|shutil|pty|importlib|ctypes|webbrowser|code|codeop"
    r"|commands|pickle|_pickle|operator|_operator|functools|asyncio|multiprocessing|types|pip|pdb|bdb|timeit"
    r"|cProfile|profile|urllib|http|requests|tempfile|pathlib\.Path\.unlink|torch\.hub|torch\.jit|torch\.load)(\..*)?"
)
"""Functions and modules with which a pickle runs programs, or reads and writes files; no weights need them."""

HOLDS_WEIGHTS = re.compile(
    r"torch\._utils\.\w+|torch\._tensor\.\w+|torch\.(\w+Storage|Size|Tensor|device|serialization\._get_layout)"
    r"|torch\.(float|bfloat|int|uint|complex|quint|qint|bool|double|half|long|short)\w*|torch\.storage\.\w+"
    r"|torch\.nn\.parameter\.\w+|collections\.(OrderedDict|Counter|defaultdict)|_codecs\.encode"
    r"|numpy\..*(_reconstruct|scalar|dtype|ndarray)|(__builtin__|builtins)\.(set|frozenset|dict|list|tuple|object|complex)"
)
"""Names that belong to weights, and to plain data beside them."""

LONGEST = 1 << 24
"""Bytes of an archive's pickled part that are read: names and shapes, no weights."""


UNPACKED = 10
"""How many times as large as an archive what is in it may be; torch packs nothing."""


class NotOnlyWeightsError(ValueError):
    """A file holds Python objects that could run code, not weights alone."""


def foreign_names(path: Path) -> list[str]:
    """Return the names, but for those of weights, that a file would have Python look up and call."""
    names = (name for name in _globals(_pickled(path)) if not HOLDS_WEIGHTS.fullmatch(name))
    return list(dict.fromkeys(names))


def refusal(path: Path) -> str | None:
    """Return why a file is not loaded although it is whole, None if it names nothing but weights."""
    names = foreign_names(path)
    if harmful := [name for name in names if RUNS_CODE.fullmatch(name)]:
        return (
            f"{path} is hostile, no checkpoint: loading it as a pickle would call {', '.join(harmful[:3])}. It was not "
            "loaded and nothing in it was run. Delete it"
        )
    if names:
        return (
            f"{path} holds Python objects beside or instead of weights ({', '.join(names[:3])}), which only running "
            "their code could load: it was not loaded. Save the weights alone, torch.save(model.state_dict(), path)"
        )
    return None


def _pickled(path: Path) -> Iterator[bytes]:
    """Yield what is pickled in a file: of an archive the part that names its weights, else the start of the file."""
    with contextlib.suppress(zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError, EOFError, ValueError):
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                for record in archive.infolist():
                    if record.filename.endswith(".pkl"):
                        with archive.open(record) as file:
                            yield file.read(LONGEST)
            return
        with open(path, "rb") as file:
            rest = file.read(LONGEST)
        while rest:
            yield rest
            rest = rest[_length(rest) :]


def _length(pickled: bytes) -> int:
    """Return where the first of several pickles ends, the length of all if it does not end."""
    try:
        return 1 + max(place or 0 for code, _, place in pickletools.genops(pickled) if code.name == "STOP")
    except Exception:  # whatever damage: there is nothing more to read
        return len(pickled)


def _globals(pickles: Iterator[bytes]) -> Iterator[str]:
    for pickled in pickles:
        texts: list[Any] = []
        memo: dict[Any, Any] = {}
        last: Any = None
        with contextlib.suppress(Exception):  # of a damaged pickle the names before the damage count
            for code, argument, _ in pickletools.genops(pickled):
                if code.name in ("GLOBAL", "INST"):
                    yield str(argument).replace(" ", ".")
                elif code.name == "STACK_GLOBAL":
                    yield ".".join(texts[-2:])
                elif code.name in ("MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"):
                    memo[len(memo) if code.name == "MEMOIZE" else argument] = last
                last = memo.get(argument) if code.name in ("GET", "BINGET", "LONG_BINGET") else argument
                if isinstance(last, str):
                    texts.append(last)


def spoilt_record(path: Path) -> str | None:
    """Return the first record of an archive whose bytes do not have its checksum, None if all have theirs.

    Raises:
        zipfile.BadZipFile: the archive is damaged, or far smaller than what it unpacks to: weights hardly shrink.
    """
    with zipfile.ZipFile(path) as archive:
        unpacked, packed = sum(record.file_size for record in archive.infolist()), path.stat().st_size
        if unpacked > UNPACKED * packed:
            raise zipfile.BadZipFile(f"its {packed} bytes would unpack to {unpacked}")
        for record in archive.infolist():
            if record.CRC == 0 and record.file_size:  # torch was told to compute none
                continue
            try:
                with archive.open(record) as file:
                    while file.read(1 << 20):
                        pass
            except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError):
                return record.filename
    return None
