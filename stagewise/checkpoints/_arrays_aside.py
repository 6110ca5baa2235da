"""Arrays of a table's rows aside in a temporary file: one is read where it is used, and not kept in memory."""

import os
import tempfile
from collections.abc import Sequence
from typing import IO, Any

import numpy as np
import pyarrow as pa


class StoredArray:
    """An array of one row. NumPy reads it as it reads a list of numbers; a copy in another process is a plain array.

    The file, which has no name, is freed with the last array in it.
    """

    __slots__ = ("_dtype", "_file", "_number", "_place")

    def __init__(self, file: IO[bytes], place: int, number: int, dtype: np.dtype[Any]) -> None:
        """Remember where it lies: from a byte on, so many numbers."""
        self._file, self._place, self._number, self._dtype = file, place, number, dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        content = os.pread(self._file.fileno(), self._number * self._dtype.itemsize, self._place)
        array = np.frombuffer(content, self._dtype)
        return array if dtype is None else array.astype(dtype)

    def __len__(self) -> int:
        return self._number

    def __reduce__(self) -> tuple[Any, ...]:
        return np.array, (np.asarray(self),)


def nameless_file() -> IO[bytes]:
    """Open a temporary file for arrays, which is gone with whatever reads it."""
    return tempfile.TemporaryFile()


def put_aside(column: pa.ListArray, file: IO[bytes]) -> Sequence[StoredArray | None]:
    """Write the arrays of a column of rows; return what stands for each, None where a row has none."""
    cells = column.flatten().to_numpy(zero_copy_only=False)
    lengths = column.value_lengths().fill_null(-1).to_numpy()
    start, width = file.seek(0, os.SEEK_END), cells.itemsize
    file.write(cells.tobytes())
    file.flush()
    stops = start + width * lengths.clip(min=0).cumsum()
    return [
        None if number < 0 else StoredArray(file, int(stop - width * number), int(number), cells.dtype)
        for number, stop in zip(lengths, stops, strict=True)
    ]
