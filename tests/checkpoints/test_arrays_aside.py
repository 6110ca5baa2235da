"""Arrays in a temporary file are read as they were written, by NumPy, by threads, and in other processes."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from stagewise.checkpoints._arrays_aside import StoredArray, nameless_file, put_aside

ROWS = [[0.5, 0.25, 1.0], None, [], [2.0, 3.0, 4.0]]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_each_row_is_read_as_it_was_written_and_rows_without_are_missing(kind: pa.DataType) -> None:
    file = nameless_file()
    for turn in range(2):
        stored = put_aside(pa.array(ROWS, pa.list_(kind)), file)
        assert pd.Series(list[Any](stored), dtype=object).isna().tolist() == [False, True, False, False]
        for row, each in zip(ROWS, stored, strict=True):
            if row is not None:
                assert (np.asarray(each).tolist(), np.asarray(each).dtype) == (row, kind.to_pandas_dtype()), turn
    whole: list[Any] = [stored[0], stored[3]]
    np.testing.assert_array_equal(np.stack(whole), [ROWS[0], ROWS[3]])


def test_another_process_is_sent_a_plain_array() -> None:
    (stored,) = put_aside(pa.array([[1.0, 2.0]], pa.list_(pa.float32())), nameless_file())
    assert isinstance(stored, StoredArray)
    copy = pickle.loads(pickle.dumps(stored))
    assert (type(copy), copy.tolist(), len(stored)) == (np.ndarray, [1.0, 2.0], 2)


def test_threads_read_each_its_own() -> None:
    column = pa.array([[float(i)] * 50 for i in range(200)], pa.list_(pa.float32()))
    stored = put_aside(column, nameless_file())
    with ThreadPoolExecutor(4) as pool:
        read = list(pool.map(lambda i: (i, set(np.asarray(stored[i]).tolist())), list(range(200)) * 5))
    assert all(values == {i} for i, values in read)
