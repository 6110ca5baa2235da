"""Files of tokens, each written by the tool whose format it is."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from stagewise.checkpoints.token_files import IGNORED, read_sequences

ROWS = [[5, 6, 7, 8], [1, 2, 3, 4], [9, 8, 7, 6]]


def written(path: Path, rows: Any) -> Path:
    if path.suffix == ".npy":
        np.save(path, np.array(rows, dtype=np.uint16))
    elif path.suffix == ".safetensors":
        from safetensors.torch import save_file

        save_file({"tokens": torch.tensor(rows)}, path)
    elif path.suffix == ".pt":
        torch.save(torch.tensor(rows), path)
    else:
        import datasets

        datasets.Dataset.from_dict({"input_ids": rows}).save_to_disk(str(path))
    return path


@pytest.mark.parametrize("name", ["t.npy", "t.safetensors", "t.pt", "folder"])
def test_every_format_gives_the_same_sequences(name: str, tmp_path: Path) -> None:
    tokens, labels, *_ = read_sequences(written(tmp_path / name, ROWS), 3)
    assert (tokens.tolist(), labels) == ([row[:3] for row in ROWS], None)


@pytest.mark.parametrize("name", ["t.npy", "t.pt", "t.safetensors"])
def test_one_long_row_is_divided(name: str, tmp_path: Path) -> None:
    assert read_sequences(written(tmp_path / name, [*range(11)]), 4).tokens.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize("name", ["t.npy", "t.pt", "t.safetensors", "folder"])
def test_one_row_alone_is_divided_as_a_long_row_is(name: str, tmp_path: Path) -> None:
    found = read_sequences(written(tmp_path / name, [[*range(11)]]), 4)
    assert (found.tokens.tolist(), found.left_out) == ([[0, 1, 2, 3], [4, 5, 6, 7]], "")


def test_what_a_tokenizer_returns_is_divided_with_its_mask_and_labels(tmp_path: Path) -> None:
    tokens, mask = torch.arange(11)[None], torch.ones(1, 11, dtype=torch.int64)
    mask[0, :2] = 0
    torch.save({"input_ids": tokens, "attention_mask": mask, "labels": tokens}, tmp_path / "t.pt")
    found = read_sequences(tmp_path / "t.pt", 4)
    assert found.tokens.tolist() == [[2, 3, 4, 5], [6, 7, 8, 9]]
    assert found.labels is not None
    assert found.labels.tolist() == found.tokens.tolist()


@pytest.mark.parametrize(
    ("rows", "longest", "words"),
    [
        (ROWS, 4, ""),
        (ROWS, 3, "rows of up to 4 tokens are cut to the first 3"),
        ([[1, 2], [3, 4, 5], [6, 7, 8]], 9, "1 of 3 rows are shorter than 3 tokens and left out"),
        (
            [[1, 2], [3, 4, 5], [6, 7, 8, 9]],
            9,
            "rows of up to 4 tokens are cut to the first 3; 1 of 3 rows are shorter than 3 tokens and left out",
        ),
    ],
)
def test_what_is_cut_and_left_out_is_said(rows: Any, longest: int, words: str, tmp_path: Path) -> None:
    assert read_sequences(written(tmp_path / "folder", rows), longest).left_out == words


def test_rows_of_several_lengths_are_taken_where_they_are_long_enough(tmp_path: Path) -> None:
    rows = [[1, 2], [3, 4, 5, 6], [7, 8, 9, 9, 9]]
    assert read_sequences(written(tmp_path / "folder", rows), 99).tokens.tolist() == [[3, 4, 5, 6], [7, 8, 9, 9]]


def test_labels_of_a_training_come_with_the_tokens(tmp_path: Path) -> None:
    labels = [[IGNORED, IGNORED, 7, 8]] * 3
    torch.save({"input_ids": torch.tensor(ROWS), "labels": torch.tensor(labels)}, tmp_path / "t.pt")
    found = read_sequences(tmp_path / "t.pt", 9)
    assert found.labels is not None
    assert found.labels.tolist() == labels


@pytest.mark.parametrize("ending", [".pt", ""])
def test_padding_is_left_out_on_either_side(ending: str, tmp_path: Path) -> None:
    columns = {
        "input_ids": [[0, 0, 5, 6, 7], [8, 9, 8, 0, 0], [1, 2, 3, 4, 0]],
        "attention_mask": [[0, 0, 1, 1, 1], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0]],
        "labels": [[IGNORED, IGNORED, IGNORED, 6, 7], [8, 9, 8, IGNORED, IGNORED], [1, 2, 3, 4, IGNORED]],
    }
    path = tmp_path / f"padded{ending}"
    if ending:
        torch.save({name: torch.tensor(rows) for name, rows in columns.items()}, path)
    else:
        import datasets

        datasets.Dataset.from_dict(columns).save_to_disk(str(path))
    tokens, labels, *_ = read_sequences(path, 9)
    assert tokens.tolist() == [[5, 6, 7], [8, 9, 8], [1, 2, 3]]
    assert labels is not None
    assert labels.tolist() == [[IGNORED, 6, 7], [8, 9, 8], [1, 2, 3]]


@pytest.mark.parametrize("marked", [False, True])
def test_padding_that_nothing_marks_is_said_to_look_like_it(marked: bool, tmp_path: Path) -> None:
    rows = torch.tensor([[5, 6, 7, 8, 9, 5, 6], [5, 6, 0, 0, 0, 0, 0], [8, 6, 7, 0, 0, 0, 0]])
    torch.save({"input_ids": rows, **({"attention_mask": rows > 0} if marked else {})}, tmp_path / "t.pt")
    words = read_sequences(tmp_path / "t.pt", 9).left_out
    assert (
        "2 of the first 3 rows end in tokens 0 alone: if they are padding, give an attention_mask" in words
    ) != marked


def test_the_tokens_of_nanogpt_take_sixteen_bits_each(tmp_path: Path) -> None:
    np.array([50_256, *range(6)], dtype=np.uint16).tofile(tmp_path / "train.bin")
    assert read_sequences(tmp_path / "train.bin", 3).tokens.tolist() == [[50_256, 0, 1], [2, 3, 4]]


def test_the_only_column_of_a_data_set_may_have_any_name(tmp_path: Path) -> None:
    import datasets

    datasets.Dataset.from_dict({"ids": ROWS}).save_to_disk(str(tmp_path / "one"))
    datasets.Dataset.from_dict({"ids": ROWS, "text": ["a"] * 3}).save_to_disk(str(tmp_path / "two"))
    assert read_sequences(tmp_path / "one", 4).tokens.tolist() == ROWS
    with pytest.raises(ValueError, match="two holds 'ids', 'text': call the tokens 'input_ids'"):
        read_sequences(tmp_path / "two", 4)


def test_a_mask_of_another_size_is_refused(tmp_path: Path) -> None:
    masked = {"input_ids": torch.tensor(ROWS), "attention_mask": torch.tensor([[1, 0]] * 3)}
    torch.save(masked, tmp_path / "t.pt")
    with pytest.raises(ValueError, match="attention_mask of other sizes than input_ids"):
        read_sequences(tmp_path / "t.pt", 9)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[0.5, 1.0]], "holds float64: tokens are whole numbers"),
        ([[1], [2]], "no sequence of two tokens"),
        ([[[1, 2]]], "an array of 3 axes"),
    ],
)
def test_what_is_no_sequence_of_tokens_is_refused(rows: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        read_sequences(written(tmp_path / "t.pt", rows), 8)


def test_files_that_are_not_there_or_of_another_kind_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no file of tokens .*nowhere\.npy: give \.pt, \.npy"):
        read_sequences(tmp_path / "nowhere.npy", 8)
    (tmp_path / "t.csv").write_text("1,2")
    with pytest.raises(ValueError, match=r"t\.csv is no file of tokens that can be read"):
        read_sequences(tmp_path / "t.csv", 8)
    torch.save(torch.utils.data.TensorDataset(torch.ones(1)), tmp_path / "t.pt")
    with pytest.raises(ValueError, match="holds Python objects: save the tokens alone"):
        read_sequences(tmp_path / "t.pt", 8)
    torch.save((torch.ones(2, 2), torch.ones(2, 2)), tmp_path / "t.pt")
    with pytest.raises(ValueError, match="an array of 3 axes"):
        read_sequences(tmp_path / "t.pt", 8)
    torch.save({"a": torch.ones(1), "b": torch.ones(1)}, tmp_path / "t.pt")
    with pytest.raises(ValueError, match="holds 'a', 'b': call the tokens 'input_ids'"):
        read_sequences(tmp_path / "t.pt", 8)
