"""Sequences of tokens in files that others wrote: .pt, .npy, .safetensors, nanoGPT's .bin, a folder of `datasets`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from stagewise.checkpoints._digest import check_file
from stagewise.checkpoints._pickles import NotOnlyWeightsError
from stagewise.checkpoints._weight_files import load_file

NAMES = ("input_ids", "tokens")
"""Names of sequences in a file with several tensors or columns; LABELS are the targets that count, MASK is 0 at
padding."""

LABELS = "labels"
MASK = "attention_mask"
IGNORED = -100
"""The label of a position that does not count, as PyTorch's cross-entropy has it."""

FORMATS = ".pt, .npy, .safetensors, nanoGPT's .bin, or a folder that `datasets.Dataset.save_to_disk` wrote"

SEEN, ALIKE, OFTEN = 256, 4, 0.1
"""Rows that are read for padding, equal tokens at a row's end, and the part of rows with them, that look like it."""

Rows = Sequence[np.ndarray] | np.ndarray
"""Rows of tokens: an array where they have one length."""


class Sequences(NamedTuple):
    """Sequences of one length, as they were read.

    Args:
        tokens: of each.
        labels: at each token the label that counts in training, if the file has any.
        rows: of the file; as many as sequences where one long row was divided.
        longest: tokens of the longest row; of a sequence where one long row was divided.
        padded: what looks like padding that nothing marks, in words.
    """

    tokens: Int[Tensor, "sequence length"]
    labels: Int[Tensor, "sequence length"] | None
    rows: int
    longest: int
    padded: str = ""

    @property
    def left_out(self) -> str:
        """The parts of the file that were cut or left out, in words; empty for none."""
        n, length = self.tokens.shape
        cut = f"rows of up to {self.longest} tokens are cut to the first {length}" if self.longest > length else ""
        short = f"{self.rows - n} of {self.rows} rows are shorter than {length} tokens and left out"
        return "; ".join(filter(None, (cut, short if self.rows > n else "", self.padded)))


def read_sequences(path: str | Path, longest: int) -> Sequences:
    """Read sequences of tokens, none longer than `longest`.

    One long row of tokens, [token] or [1, token], is divided into such sequences. Rows of several lengths are cut to
    their median length; shorter ones are left out.

    Args:
        path: a tensor or an array, alone or named `input_ids` or `tokens`, with `labels` where some positions do not
            count (-100), and `attention_mask` where some are padding (0), which is left out; or a folder of `datasets`
            with such columns; or nanoGPT's .bin, whose tokens take 16 bits each.
        longest: tokens that a sequence has at most.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it holds no whole numbers, or no sequence of two tokens.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file of tokens {path}: give {FORMATS}")
    check_file(path)
    found = _columns(path)
    named = [name for name in NAMES if name in found] or ([*found] if len(found) == 1 else [])
    if not named:
        raise ValueError(f"{path} holds {', '.join(map(repr, found)) or 'nothing'}: call the tokens 'input_ids'")
    name = named[0]
    columns = {each: _rows(found[each], path) for each in {name: None, LABELS: None} if each in found}
    if is_marked := MASK in found and name != MASK:
        columns = _without_padding(columns, _rows(found[MASK], path), path)
    is_long = len(columns[name]) == 1 and len(columns[name][0]) > longest
    padded = "" if is_marked or is_long else _unmarked(columns[name])
    if is_long:
        columns = {each: row[: len(row) // longest * longest].reshape(-1, longest) for each, (row,) in columns.items()}
    lengths = [len(row) for row in columns[name]] or [0]
    if (length := min(longest, int(np.median(lengths)))) < 2:
        raise ValueError(f"{path} holds no sequence of two tokens: it needs [sequence, position] or one long row")
    tokens = _tensor(columns[name], length, path)
    labels = _tensor(columns[LABELS], length, path) if LABELS in columns and name != LABELS else None
    return Sequences(tokens, labels, len(columns[name]), max(lengths), padded)


def _columns(path: Path) -> dict[str, Any]:
    if path.is_dir():
        return _data_set(path)
    if path.suffix == ".npy":
        return {NAMES[0]: np.load(path, mmap_mode="r", allow_pickle=False)}
    if path.suffix == ".bin":
        return {NAMES[0]: np.fromfile(path, dtype=np.uint16)}
    if path.suffix not in (".pt", ".pth", ".safetensors"):
        raise ValueError(f"{path} is no file of tokens that can be read: give {FORMATS}")
    try:
        loaded = load_file(path, f"Give {FORMATS}")
    except NotOnlyWeightsError:
        raise ValueError(f"{path} holds Python objects: save the tokens alone, torch.save(tokens, path)") from None
    return dict(loaded) if isinstance(loaded, dict) else {NAMES[0]: loaded}


def _data_set(folder: Path) -> dict[str, Any]:
    import datasets

    loaded = datasets.load_from_disk(str(folder))
    if isinstance(loaded, datasets.DatasetDict):
        raise ValueError(f"{folder} holds the parts {', '.join(loaded)}: give one, as in {folder / next(iter(loaded))}")
    known = [name for name in (*NAMES, LABELS, MASK) if name in loaded.column_names]
    return {name: loaded[name] for name in (known if {*known} & {*NAMES} else loaded.column_names)}


def _unmarked(rows: Any) -> str:
    """Say how many of the first rows end in one token again and again, as where padding is not marked; empty for few.

    >>> _unmarked([[5, 6, 7, 0, 0, 0, 0], [5, 6, 7, 8, 9, 5, 6]])
    '1 of the first 2 rows ends in tokens 0 alone: if they are padding, give an attention_mask'
    """
    first = [np.asarray(row).tolist() for row in rows[:SEEN]]
    last = [row[-1] for row in first if len({*row[-ALIKE:]}) == 1 < len({*row})]
    if len(last) < OFTEN * len(first) or not last:
        return ""
    pad = max(set(last), key=last.count)
    number = last.count(pad)
    end = f"end{'s' if number == 1 else ''} in tokens {pad} alone: if they are padding, give an {MASK}"
    return f"{number} of the first {len(first)} rows {end}"


def _rows(values: Any, path: Path) -> Rows:
    """Return rows, which may differ in length, of a tensor, an array, a list or a column; one long row is one alone."""
    is_array = hasattr(values, "ndim") or not len(values) or not np.ndim(values[0])
    rows: Rows = np.atleast_2d(_array(values)) if is_array else [_array(row) for row in values]
    if (axes := 1 + max((row.ndim for row in rows), default=1)) != 2:
        raise ValueError(f"{path} holds an array of {axes} axes: tokens are [sequence, position] or one long row")
    return rows


def _array(values: Any) -> np.ndarray:
    is_float = isinstance(values, Tensor) and values.is_floating_point()
    return np.asarray(values.double() if is_float else values)  # NumPy lacks some of torch's types


def _without_padding(columns: dict[str, Rows], mask: Rows, path: Path) -> dict[str, Rows]:
    kept = [row.astype(bool) for row in mask]
    if all(row.all() for row in kept):
        return columns
    for name, rows in columns.items():
        if [row.shape for row in rows] != [row.shape for row in kept]:
            raise ValueError(f"{path} holds {MASK} of other sizes than {name}: it has a number for every token")
    return {name: [row[of] for row, of in zip(rows, kept, strict=True)] for name, rows in columns.items()}


def _tensor(rows: Rows, length: int, path: Path) -> Int[Tensor, "sequence length"]:
    """Return the rows that are long enough, each from its first token on."""
    cut = rows[:, :length] if isinstance(rows, np.ndarray) else np.stack([r[:length] for r in rows if len(r) >= length])
    if not np.issubdtype(cut.dtype, np.integer):
        raise ValueError(f"{path} holds {cut.dtype}: tokens are whole numbers, counted from 0")
    return torch.from_numpy(cut.astype(np.int64))
