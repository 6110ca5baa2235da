"""A table on disk, read in part: the rows that were asked for, as pandas reads them, and no column that is empty."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stagewise.checkpoints import _table_file as data_files
from stagewise.checkpoints._table_file import TableFile, read_json, read_parquet
from stagewise.checkpoints._writing import write
from stagewise.measurement._earlier import join_into
from stagewise.table import ARRAYS, Quantity, declared, maps_in, tidy

LOSS = {"Loss": {"cross_entropy": Quantity("loss", "nats", progress="down")}}


def rows(step: int) -> pd.DataFrame:
    """A checkpoint: the loss with resamples, two quantities of two heads, and their maps."""
    keys: dict[str, Any] = {"run": "mine", "step": step}
    resamples = pd.Series([np.arange(3, dtype=np.float32) + step], dtype=object)
    loss = pd.DataFrame({"probe": "Loss", "quantity": "cross_entropy", "value": [1.0], "lo": 0.5, "hi": 2.0, "n": 7})
    heads = pd.DataFrame({"probe": "Scores", "layer": 0, "head": [0, 1], "value": [step, 2.0 * step]})
    maps = pd.Series([np.full(4, step + head, dtype=np.float32) for head in range(2)], dtype=object)
    frames = [
        loss.assign(resamples=resamples),
        *(heads.assign(quantity=name) for name in ("mass", "along")),
        heads.drop(columns="value").assign(probe="Maps", quantity="attention", map=maps),
    ]
    return tidy([frame.assign(**keys) for frame in frames])


@pytest.fixture(params=["small", "large"])
def file(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableFile:
    """A file that is read once, and one of which only the rows asked for are."""
    monkeypatch.setattr("stagewise.checkpoints._table_file.SMALL", 100 if request.param == "small" else 0)
    parts = [tmp_path / f"{step}.parquet" for step in (0, 5, 10)]
    for part in parts:
        rows(int(part.stem)).to_parquet(part, index=False)
    join_into(parts, tmp_path / "table.parquet", LOSS)
    return TableFile(tmp_path / "table.parquet")


def assert_same(part: pd.DataFrame, expected: pd.DataFrame) -> None:
    """The part has the rows in their order, and of the columns those with a value."""
    expected = expected.reset_index(drop=True)[list(part)]
    arrays = [name for name in part if name in ARRAYS]
    pd.testing.assert_frame_equal(part.drop(columns=arrays), expected.drop(columns=arrays))
    for name in arrays:
        for one, other in zip(part[name], expected[name], strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.one_of(3)
@pytest.mark.parametrize(
    ("names", "steps"),
    [(None, None), (["Scores"], None), (["Scores.along", "Loss"], None), (["Scores.mass"], [5]), (None, [0, 10])],
)
def test_a_part_is_what_pandas_would_choose(names: list[str] | None, steps: list[int] | None, file: TableFile) -> None:
    whole = pd.read_parquet(file.path)
    quantities = whole["probe"] + "." + whole["quantity"]
    chosen = np.full(len(whole), True) if names is None else whole["probe"].isin(names) | quantities.isin(names)
    expected = whole[chosen & (True if steps is None else whole["step"].isin(steps))]
    part = file.read(names, steps)
    assert_same(part, expected)
    present = {name for name in expected if expected[name].notna().any()}
    assert set(part) == present - set(ARRAYS)


def test_its_length_is_its_rows(file: TableFile) -> None:
    assert len(file) == len(file.read()) == sum(len(rows(step)) for step in (0, 5, 10))


def test_arrays_are_read_where_they_are_asked_for(file: TableFile) -> None:
    maps = file.read(["Maps"], [5], ["map"])
    assert maps_in(maps).tolist() == [[[5, 5], [5, 5]], [[6, 6], [6, 6]]]
    assert file.read(["Loss"], [10], ["resamples"])["resamples"].iloc[0].tolist() == [10, 11, 12]


@pytest.mark.parametrize("names", [None, ["Maps", "Loss"], ["Scores"]])
def test_arrays_aside_are_those_in_memory(names: list[str] | None, file: TableFile) -> None:
    aside, there = (file.read(names, None, ARRAYS, aside=each) for each in (True, False))
    assert list(aside) == list(there)
    assert_same(aside, there)
    assert aside.attrs == there.attrs


def test_a_column_without_any_array_is_left_out_aside_too(file: TableFile) -> None:
    frame = file.read(["Scores"])
    frame.assign(resamples=None).to_parquet(file.path)
    assert "resamples" not in TableFile(file.path).read(None, None, ["resamples"], aside=True)


def test_the_outline_is_a_row_for_each_quantity_at_each_checkpoint(file: TableFile) -> None:
    keys = ["step", "probe", "quantity"]
    assert file.outline[keys].to_numpy().tolist() == [
        [step, *pair]
        for step in (0, 5, 10)
        for pair in [("Loss", "cross_entropy"), ("Scores", "mass"), ("Scores", "along"), ("Maps", "attention")]
    ]
    assert file.outline.loc[file.outline["probe"] == "Loss", "n"].tolist() == [7, 7, 7]


def test_every_part_says_what_its_numbers_are(file: TableFile) -> None:
    assert declared(file.outline) == declared(file.read(["Loss"])) == LOSS


def test_what_the_table_does_not_have_is_no_row(file: TableFile) -> None:
    nothing = file.read(["Accuracy"])
    assert (len(nothing), list(nothing)) == (0, ["run", "step", "probe", "quantity"])
    assert len(file.read(["Loss"], [7])) == 0


def test_rows_may_lie_in_any_order_in_a_file_of_another_writer(tmp_path: Path) -> None:
    shuffled = tidy([rows(step) for step in (0, 5)]).sample(frac=1, random_state=0, ignore_index=True)
    shuffled.to_parquet(tmp_path / "table.parquet", index=False)
    file = TableFile(tmp_path / "table.parquet")
    assert_same(file.read(["Scores.mass"]), shuffled[shuffled["quantity"] == "mass"])
    assert_same(file.read(steps=[5]), shuffled[shuffled["step"] == 5])
    assert len(file.outline) == 8


LISTS = [[0.5, 0.25, 1.0], None, [], [2.0, 3.0, 4.0]]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_each_array_is_read_as_it_was_written_and_rows_without_are_missing(kind: pa.DataType, file: TableFile) -> None:
    columns = {
        "run": ["a"] * 4,
        "step": range(4),
        "probe": ["Maps"] * 4,
        "quantity": ["attention"] * 4,
        "value": [0.0] * 4,
    }
    table = pa.table({**columns, "map": pa.array(LISTS, pa.list_(kind))})
    pq.write_table(table, file.path, row_group_size=3)
    stored = TableFile(file.path).read(None, None, ["map"], aside=True)["map"]
    assert stored.isna().tolist() == [False, True, False, False]
    for row, each in zip(LISTS, stored, strict=True):
        if row is not None:
            assert (each.tolist(), each.dtype) == (row, kind.to_pandas_dtype())
    copy = pickle.loads(pickle.dumps(stored[0]))
    assert copy.tolist() == LISTS[0]


FAULTS = {
    b"": "is not valid JSON",
    b"{": "is not valid JSON",
    b"\xff\xfe": "is not valid JSON",
    b"[1]": "holds a list, expected a JSON object",
    b"1.5": "holds a number, expected a JSON object",
    b"true": "holds a boolean, expected a JSON object",
    b'"{}"': "holds a text, expected a JSON object",
    b"null": "holds nothing, expected a JSON object",
}


def test_an_object_comes_back(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"ü": [1, null], "b": {}}', encoding="utf8")
    assert read_json(tmp_path / "a.json") == {"ü": [1, None], "b": {}}


@pytest.mark.parametrize("content", FAULTS)
def test_a_fault_names_the_file_and_what_to_do(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(ValueError, match=f"{tmp_path / 'a.json'} {FAULTS[content]}.*: make it anew$"):
        read_json(tmp_path / "a.json", "make it anew")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"a.json is not there: restore it"):
        read_json(tmp_path / "a.json")


def test_a_file_may_have_a_name_that_says_more_than_its_path(tmp_path: Path) -> None:
    (tmp_path / "3f2a").write_text("[]")
    with pytest.raises(ValueError, match=r"^config.json of step10 holds a list"):
        read_json(tmp_path / "3f2a", name="config.json of step10")


def test_a_file_too_large_to_be_one_is_named_and_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "a.json", "wb") as file:
        file.truncate(2**40)
    with pytest.raises(ValueError, match=r"a.json is no file to read: it has 1099511627776 bytes"):
        read_json(tmp_path / "a.json")


@pytest.mark.parametrize(("before", "inside", "after"), [('{"n": ', "1", "}"), ("", "[", "")], ids=["digits", "depth"])
def test_numbers_of_thousands_of_digits_and_depth_are_faults_as_any(
    before: str, inside: str, after: str, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text(before + 100_000 * inside + after)
    with pytest.raises(ValueError, match=r"a.json is not valid JSON \((Exceeds the limit|maximum recursion)"):
        read_json(tmp_path / "a.json")


FRAME = pd.DataFrame({"step": [1, 2], "loss": [0.5, 0.25]})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "table.parquet", FRAME.to_parquet)


def test_a_whole_file_is_read(path: Path) -> None:
    pd.testing.assert_frame_equal(read_parquet(path, "make it again"), FRAME)


def test_one_that_is_gone_is_named_with_what_to_do(path: Path) -> None:
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"table.parquet is not there: make it again"):
        read_parquet(path, "make it again")


def test_a_flipped_bit_is_noticed(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"table.parquet is damaged.*make it again"):
        read_parquet(path, "make it again")


def test_a_foreign_file_that_is_no_parquet_is_named(tmp_path: Path) -> None:
    (tmp_path / "other.parquet").write_bytes(b"no table")
    with pytest.raises(ValueError, match=r"other.parquet is truncated or damaged"):
        read_parquet(tmp_path / "other.parquet", "make it again")


def test_a_file_that_unpacks_to_more_than_memory_is_named_and_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pd.DataFrame({"step": [0] * 100_000}).to_parquet(tmp_path / "bomb.parquet", index=False)
    monkeypatch.setattr(data_files, "MEMORY", 700_000)
    with pytest.raises(ValueError, match=r"bomb.parquet is no table to read: its \d+ bytes unpack to 800000: make it"):
        read_parquet(tmp_path / "bomb.parquet", "make it again")
