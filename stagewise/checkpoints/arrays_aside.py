"""Arrays of a table's rows aside in a temporary file: one is read where it is used, and not kept in memory."""

import functools
import tempfile
import threading
from collections.abc import Sequence
from typing import IO, Any

import numpy as np
import pyarrow as pa


class StoredArray:
    """An array of one row. NumPy reads it as it reads a list of numbers; a copy in another process is a plain array."""

    __slots__ = ("_aside", "_dtype", "_number", "_place")

    def __init__(self, aside: "ArraysAside", place: int, number: int, dtype: np.dtype[Any]) -> None:
        """Remember where it lies: from a byte on, so many numbers."""
        self._aside, self._place, self._number, self._dtype = aside, place, number, dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        content = self._aside.content(self._place, self._number * self._dtype.itemsize)
        array = np.frombuffer(content, self._dtype)
        return array if dtype is None else array.astype(dtype)

    def __len__(self) -> int:
        return self._number

    def __reduce__(self) -> tuple[Any, ...]:
        return np.array, (np.asarray(self),)


class ArraysAside:
    """A temporary file without a name, made for the first column, which is freed with the last array in it."""

    def __init__(self) -> None:
        """Hold nothing yet."""
        self._lock = threading.Lock()

    @functools.cached_property
    def _file(self) -> IO[bytes]:
        return tempfile.TemporaryFile()

    def put(self, column: pa.ListArray) -> Sequence[StoredArray | None]:
        """Write the arrays of a column of rows; return what stands for each, None where a row has none."""
        cells = column.flatten().to_numpy(zero_copy_only=False)
        lengths = column.value_lengths().fill_null(-1).to_numpy()
        with self._lock:
            start = self._file.seek(0, 2)
            self._file.write(cells.tobytes())
        stops, width = start + cells.itemsize * lengths.clip(min=0).cumsum(), cells.itemsize
        return [
            None if number < 0 else StoredArray(self, int(stop - width * number), int(number), cells.dtype)
            for number, stop in zip(lengths, stops, strict=True)
        ]

    def content(self, place: int, size: int) -> bytes:
        """Return so many bytes from a place on."""
        with self._lock:
            self._file.seek(place)
            return self._file.read(size)
