"""The contents of a file of `torch.save`, read without running any of it: checksums, and the names that it would call.

torch's own list, `get_unsafe_globals_in_checkpoint`, is of zip archives of pickle protocol 2 alone; fickling names
nothing in a damaged or a long file.
"""

import _compat_pickle
import contextlib
import io
import pickletools
import re
import struct
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch

RUNS_CODE = re.compile(
    r"(?!types\.SimpleNamespace$|functools\.partial$|operator\.\w+getter$)"
    r"((__builtin__|builtins)\.(eval|exec|execfile|compile|setattr|delattr|__import__|open|input|breakpoint"
    r"|globals|vars|apply|map|filter)|(os|posix|nt|sys|_?io|subprocess|runpy|socket|shutil|pty|importlib|ctypes|webbrowser|code|codeop"
    r"|commands|pickle|_pickle|operator|_operator|functools|asyncio|multiprocessing|types|pip|pdb|bdb|timeit"
    r"|cProfile|profile|urllib|http|requests|tempfile|pathlib\.Path\.unlink|torch\.hub|torch\.jit|torch\.(serialization\.)?load)(\..*)?)"
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

UNREADABLE = (
    *(RuntimeError, UnpicklingError, EOFError, ValueError, LookupError),
    *(AssertionError, AttributeError, TypeError, OverflowError, MemoryError, struct.error, zipfile.BadZipFile),
)
"""Errors of `torch.load` for a damaged file, by the place where it is truncated; the old format raises more kinds."""

UNPACKED = 10
"""How many times as large as an archive what is in it may be; torch packs nothing."""


class NotOnlyWeightsError(ValueError):
    """A file holds Python objects that could run code, not weights alone."""


def _foreign_names(path: Path) -> list[str]:
    """Return the names, but for those of weights, that a file would have Python look up and call."""
    return [name for name in dict.fromkeys(_globals(path)) if not HOLDS_WEIGHTS.fullmatch(name)]


FSDP2 = "DTensor"
"""The class of FSDP2's tensors, of which a process has a part."""

FSDP2_ADVICE = (
    "which FSDP2 leaves in parts, one a process: torch.save(get_model_state_dict(model, "
    "options=StateDictOptions(full_state_dict=True)), path)"
)


def refusal(path: Path) -> str | None:
    """Return why a file is not loaded although it is whole, None if it names nothing but weights."""
    names = _foreign_names(path)
    if harmful := [name for name in names if RUNS_CODE.fullmatch(name)]:
        return (
            f"{path} is hostile, no checkpoint: loading it as a pickle would call {', '.join(harmful[:3])}. It was not "
            "loaded and nothing in it was run. Delete it"
        )
    if names:
        advice = FSDP2_ADVICE if any(name.endswith(FSDP2) for name in names) else "torch.save(model.state_dict(), path)"
        return (
            f"{path} holds Python objects beside or instead of weights ({', '.join(names[:3])}), which only running "
            f"their code could load: it was not loaded. Save the weights alone, {advice}"
        )
    return None


def _pickled(path: Path) -> Iterator[bytes]:
    """Yield where a file holds pickles: in an archive the part that names its weights, else the start of the file."""
    with contextlib.suppress(zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError, EOFError, ValueError):
        if not zipfile.is_zipfile(path):
            with open(path, "rb") as file:
                yield file.read(LONGEST)
            return
        with zipfile.ZipFile(path) as archive:
            for record in archive.infolist():
                if record.filename.endswith(".pkl"):
                    yield archive.open(record).read(LONGEST)


def _globals(path: Path) -> Iterator[str]:
    """Yield the names that the pickles in a file look up; of a damaged one those before the damage."""
    for part in _pickled(path):
        stream = io.BytesIO(part)
        with contextlib.suppress(Exception):
            while stream.tell() < len(part):  # torch's old format is several pickles, and then numbers
                yield from _looked_up(stream)


def _looked_up(stream: io.BytesIO) -> Iterator[str]:
    """Yield the names that the next pickle of a stream looks up."""
    texts: list[Any] = []
    memo: dict[Any, Any] = {}
    last: Any = None
    for code, argument, _ in pickletools.genops(stream):
        if code.name in ("GLOBAL", "INST"):
            yield str(argument).replace(" ", ".")
        elif code.name == "STACK_GLOBAL":
            yield ".".join(texts[-2:])
        elif code.name in ("MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"):
            memo[len(memo) if code.name == "MEMOIZE" else argument] = last
        last = memo.get(argument) if code.name in ("GET", "BINGET", "LONG_BINGET") else argument
        if isinstance(last, str):
            texts.append(last)


def flag_in(path: Path, key: str) -> bool | None:
    """Return the flag behind a key in what a file has pickled, None where there is none."""
    for part in _pickled(path):
        last: Any = None
        with contextlib.suppress(Exception):  # of a damaged pickle, of which its reader tells
            for code, argument, _ in pickletools.genops(part):
                if last == key and code.name in ("NEWTRUE", "NEWFALSE"):
                    return code.name == "NEWTRUE"
                last = last if code.name == "MEMOIZE" or code.name.endswith("PUT") else argument
    return None


class Stub:
    """The file's record of an object that is no plain data; `inert` makes a class for each name."""

    name = ""
    """The name of the object, as in __main__.GPTConfig."""

    def __init__(self, *given: Any, **_: Any) -> None:
        """Keep the arguments; by a class's own way to be made again there may be none."""
        self.given = given

    def __setstate__(self, state: Any) -> None:
        self.state = state

    @property
    def fields(self) -> Mapping[str, Any]:
        """Its attributes, where the file holds these by name."""
        state = self.__dict__.get("state")
        return state if isinstance(state, Mapping) else {}


CONTAINERS: dict[str, type] = {"collections.defaultdict": dict, "collections.deque": list}
"""Names that are made anew as plain data."""

GROWS = re.compile(r"Can only (SETITEM|append|extend).*class '(?P<name>[\w.<>]+)'")
"""torch's message where entries are put into a stub, which then stands for a mapping or a sequence."""


def load_inertly(path: Path) -> Any:
    """Load a file of `torch.save` by torch's reader of weights, with a stub for whatever is no plain data."""
    names = list(dict.fromkeys(_renamed(name) for name in _globals(path)))
    if (why := refusal(path)) and " is hostile" in why:
        raise NotOnlyWeightsError(why)
    containers = dict(CONTAINERS)
    for _ in range(len(names) + 1):
        stubs = [stub_of(name, containers.get(name)) for name in names if "." in name]
        try:
            with torch.serialization.safe_globals(stubs):
                return torch.load(path, map_location="cpu", weights_only=True)
        except (*UNREADABLE, OSError) as reason:
            match = GROWS.search(str(reason))
            if match is None or match["name"] in containers:
                if why is None:
                    raise
                raise NotOnlyWeightsError(why) from None
            containers[match["name"]] = dict if match[1] == "SETITEM" else list
    raise NotOnlyWeightsError(why or f"{path} holds Python objects in a form that is not read")


def _renamed(name: str) -> str:
    """Return a name as Python 3 has it."""
    module, _, own = name.rpartition(".")
    module, own = _compat_pickle.NAME_MAPPING.get((module, own), (module, own))
    return f"{_compat_pickle.IMPORT_MAPPING.get(module, module)}.{own}"


def stub_of(name: str, plain: type | None = None) -> Any:
    """Return the substitute for a name that a pickle would look up: a `Stub`, or a maker of plain data."""
    module, _, own = name.rpartition(".")
    known = {"__module__": module, "__qualname__": own, "name": name}  # by which torch knows it
    if plain is None:
        return type(own, (Stub,), known)
    return type(own, (), {**known, "__new__": lambda cls, *_, **__: plain()})


def array_of(stub: Any) -> np.ndarray | None:
    """Return the numbers that a stub of NumPy's stands for; None of any other."""
    if not isinstance(stub, Stub):
        return None
    try:
        if stub.name.endswith("multiarray.scalar"):
            kind, content, shape, is_fortran = stub.given[0], stub.given[1], (), False
        else:
            _, shape, kind, is_fortran, content = stub.state
        numbers = np.frombuffer(content, np.dtype(str(kind.given[0])))
        return numbers.reshape(shape, order="F" if is_fortran else "C")
    except (AttributeError, TypeError, ValueError, LookupError):
        return None


def spoilt_record(path: Path) -> str | None:
    """Return the first record of an archive whose bytes do not have its checksum, None if all have theirs."""
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
