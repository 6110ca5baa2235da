"""Other forms of files of weights, which a converter must read: what they are, and what to do."""

import pickle
from pathlib import Path

BEGINNINGS = {
    b"version https://git-lfs": "is a pointer of Git LFS, not the file: run `git lfs pull`",
    b"\x1f\x8b": "is compressed: unpack it, as with gunzip",
    b"<": "is a page of the web, not the file: download it again",
}
"""First bytes of whole files that hold no weights in a form that is read -> what the file is, and what to do."""

REFUSALS = {
    "TorchScript archive": "is TorchScript: save `torch.jit.load(path).state_dict()` with `torch.save`",
    "Unsupported operand 149": "is a pickle of protocol 4 or later: save it as `torch.save` does, pickle_protocol=2",
}
"""torch's words for whole files that its reader of weights refuses -> the kind of file, and the remedy."""

MAGIC = b"\x8a\nl\xfc"
"""In the first bytes of torch's old format, which is a pickle, too."""


class OtherFormError(ValueError):
    """A file is whole, and holds no weights in a form that is read."""


def other_form(path: Path, reason: str) -> str:
    """Return in words what a whole file is that torch refused for a reason, and what to do; empty for damage."""
    with path.open("rb") as file:
        start = file.read(32)
        file.seek(max(0, path.stat().st_size - 1))
        is_pickle = start.startswith(b"\x80") and MAGIC not in start and file.read() == pickle.STOP
    if known := next((what for beginning, what in BEGINNINGS.items() if start.startswith(beginning)), ""):
        return known
    if is_pickle:
        return "is a pickle of Python's own: save its weights with `torch.save`"
    by_torch = start.startswith((b"PK", b"\x80\x04", b"\x80\x05"))
    return next((what for said, what in REFUSALS.items() if by_torch and said in reason), "")


def is_safetensors(path: Path) -> bool:
    """Whether a file begins as one of safetensors does, whatever it is called; by its name where it is too short."""
    with path.open("rb") as file:
        start = file.read(9)
    return start.endswith(b"{") if len(start) == 9 else path.suffix == ".safetensors"
