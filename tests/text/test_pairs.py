"""Pairs: every format is read as it is, what the tokenizer does is said, and what cannot be compared is a line."""

import csv
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import datasets
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from stagewise.text.pairs import Pair, encode_pairs, read_pairs

ROWS = [
    {"prompt": f"then {a} and {b} saw {a} and", "right": b, "wrong": a, "corrupted": f"then {a} and {b} saw {c} and",
     "S1": 1, "S2": -2, "IO": f"{b}"}
    for a, b, c in (("Ann", "Bob", "Cid"), ("Bob", "Cid", "Ann"), ("Cid", "Ann", "Bob"), ("Ann", "Cid", "Bob"))
]  # fmt: skip
WORDS = ["then", "and", "saw", "Ann", "Bob", "Cid"]


def of_words(text: str) -> list[int]:
    return [WORDS.index(word) for word in text.split()]


def encoded(rows: list[dict[str, Any]], **options: Any) -> Any:
    return encode_pairs(read_pairs(rows), of_words, WORDS.__getitem__, **options)


def as_csv(path: Path) -> Path:
    with path.open("w", encoding="utf8", newline="") as file:
        writer = csv.DictWriter(file, list(ROWS[0]))
        writer.writeheader()
        writer.writerows(ROWS)
    return path


def as_lines(path: Path) -> Path:
    path.write_text("\n".join(map(json.dumps, ROWS)), encoding="utf8")
    return path


def as_data_set(path: Path) -> Path:
    datasets.Dataset.from_list(ROWS).save_to_disk(str(path))
    return path


@pytest.mark.parametrize(("write", "name"), [(as_csv, "a.csv"), (as_lines, "a.jsonl"), (as_data_set, "folder")])
def test_files_hold_the_same_pairs_as_rows(write: Callable[[Path], Path], name: str, tmp_path: Path) -> None:
    assert read_pairs(write(tmp_path / name)) == read_pairs(ROWS)
    assert read_pairs(ROWS)[0] == Pair(
        "then Ann and Bob saw Ann and", ("Bob",), ("Ann",), "then Ann and Bob saw Cid and", None,
        {"S1": 1, "S2": -2, "IO": "Bob"},
    )  # fmt: skip


FOREIGN: dict[str, tuple[Mapping[str, Any], Pair]] = {
    "BLiMP": (
        {
            "sentence_good": "A cat sleeps.",
            "sentence_bad": "A cat sleep.",
            "field": "syntax",
            "UID": "x",
            "pairID": "0",
        },
        Pair("", ("A cat sleeps.",), ("A cat sleep.",), whole=True),
    ),
    "COPA": (
        {"premise": "It rained, so", "choice1": "it was wet", "choice2": "it was dry", "label": 0},
        Pair("It rained, so", (" it was wet",), (" it was dry",), whole=True),
    ),
    "WinoGrande": (
        {"sentence": "The", "option1": "cat", "option2": "dog", "answer": "1"},
        Pair("The", (" cat",), (" dog",), whole=True),
    ),
    "choices": (
        {"query": "Why?", "choices": ["no", "yes"], "gold": 1},
        Pair("Why?", (" yes",), (" no",), whole=True),
    ),
    "logged requests": (
        {"doc": {}, "target": "1", "arguments": [["Why?", " no"], ["Why?", " yes"]]},
        Pair("Why?", (" yes",), (" no",), whole=True),
    ),
    "logged requests of later versions": (
        {
            "target": 0,
            "arguments": {
                "gen_args_0": {"arg_0": "Why?", "arg_1": " no"},
                "gen_args_1": {"arg_0": "Why?", "arg_1": " x"},
            },
        },
        Pair("Why?", (" no",), (" x",), whole=True),
    ),
    "logged sentences": (
        {"target": 0, "arguments": [["", "A cat sleeps."], ["", "A cat sleep."]]},
        Pair("", ("A cat sleeps.",), ("A cat sleep.",), whole=True),
    ),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_files_of_benchmarks_are_read_as_they_are(name: str) -> None:
    row, pair = FOREIGN[name]
    assert read_pairs([row] * 4) == [pair] * 4


def test_a_prompt_of_several_lines_is_one_cell(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("prompt,right,wrong\n" + '"first\nsecond",a,b\n' * 4, encoding="utf8")
    assert [pair.prompt for pair in read_pairs(path)] == ["first\nsecond"] * 4


def test_a_pipe_is_no_file_of_pairs(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.csv")
    with pytest.raises(ValueError, match="no file of pairs: it was not opened"):
        read_pairs(tmp_path / "a.csv")


def test_places_are_positions_behind_the_first_token() -> None:
    one = encoded(ROWS, first=0).pairs[0]
    assert one.prompt == [0, *of_words("then Ann and Bob saw Ann and")]
    assert one.places == {"S1": 2, "S2": 6, "IO": 4}


def test_several_answers_are_separated_by_bars() -> None:
    assert encoded([{**row, "right": "Bob|Cid", "wrong": "saw"} for row in ROWS]).pairs[0].right == [[4], [5]]


def test_what_is_done_with_a_space_and_with_longer_answers_is_said() -> None:
    assert encoded(ROWS, first=0).notes == [
        "each prompt begins with 'then', token 0",
        "answers follow a space: the first one's token is 'Bob', 4",
    ]
    longer = [{**row, "right": f"{row['right']} saw"} for row in ROWS]
    assert "4 of 8 answers have several tokens: their first tokens are compared" in encoded(longer).notes
    assert "several tokens: their summed log-probabilities are compared" in encoded(longer, summed=True).notes[-1]


def test_lengths_are_counted_and_said() -> None:
    rows = [*ROWS[:3], {**ROWS[3], "prompt": "Ann and Ann and", "corrupted": "Ann and Bob and", "IO": 0}]
    rows[3]["S1"] = 0
    assert "(1 of 4, 3 of 7)" in encoded(rows).notes[-1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"corrupted": "then Ann and Bob saw and"}, r"pair 1: its corrupted prompt has 6 tokens and the prompt 7"),
        ({"wrong": "Bob saw"}, r"pair 1: 'Bob' and 'Bob saw' both begin with the token 'Bob'"),
        ({"S1": 9}, r"pair 1, S1: there is no word 9 in a prompt of 7 words"),
        ({"S1": "Dan"}, r"pair 1, S1: the word 'Dan' comes 0 times"),
        ({"S1": "Ann"}, r"pair 1, S1: the word 'Ann' comes 2 times"),
        ({"wrong": ""}, r"pair 1 has no 'wrong' answer"),
        ({"wrong": "Cid|Bob"}, r"pair 1: 'Bob' is both the right and the wrong answer"),
        ({"prompt": ""}, r"pair 1 has the columns .*: give a CSV"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_a_line(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        encoded([{**ROWS[0], **change}, *ROWS[1:]])
    assert "\n" not in str(caught.value)


def test_a_word_comes_for_the_second_time() -> None:
    assert encoded([{**row, "S2": f"{row['wrong']}#2"} for row in ROWS]).pairs[0].places["S2"] == 5


def test_three_prompts_are_too_few() -> None:
    with pytest.raises(ValueError, match="the pairs holds 3 prompts: give 4 at least"):
        read_pairs(ROWS[:3])


def test_a_file_that_is_nowhere_or_no_jsonl_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no file of pairs"):
        read_pairs(tmp_path / "none.csv")
    (tmp_path / "a.jsonl").write_text("prompt: x", encoding="utf8")
    with pytest.raises(ValueError, match="is no JSONL"):
        read_pairs(tmp_path / "a.jsonl")


def test_only_some_with_a_corrupted_prompt_are_refused() -> None:
    with pytest.raises(ValueError, match="give all or none"):
        encoded([{name: value for name, value in ROWS[0].items() if name != "corrupted"}, *ROWS[1:]])


def test_a_word_that_the_tokenizer_does_not_know_is_refused() -> None:
    made = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1, "b": 2, "c": 3}, "[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    rows = [{"prompt": "a b", "right": "b", "wrong": "d"}] * 4
    with pytest.raises(ValueError, match="pair 1: the tokenizer has no token for a part of 'a b d'"):
        encode_pairs(read_pairs(rows), lambda text: made.encode(text).ids, str, unknown=0)


def test_a_tokenizer_that_joins_prompt_and_answer_is_refused() -> None:
    rows = [{"prompt": "a", "right": "b", "wrong": "c"}] * 4
    with pytest.raises(ValueError, match="joins the end of the prompt with the answer 'b'"):
        encode_pairs(read_pairs(rows), lambda text: [len(text)], str)


def test_a_comma_in_a_prompt_without_quotes_is_refused_not_read_as_another_column(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("prompt,right,wrong\n" + "then Ann and Bob, saw,Ann,Bob\n" * 4, encoding="utf8")
    with pytest.raises(ValueError, match="pair 1 has more cells than the file has columns: put a prompt with commas"):
        read_pairs(tmp_path / "a.csv")


FAULTS: dict[str, dict[str, str]] = {
    r"pair 2 has an empty answer among Cid\|Bob\|\|Cid": {"wrong": "Bob||Cid"},
    "pair 2: its corrupted prompt is the prompt itself": {"corrupted": str(ROWS[1]["prompt"])},
    "some answers begin with a space, and 'Bob' does not": {"wrong": " Bob"},
}


@pytest.mark.parametrize("message", FAULTS)
def test_a_row_that_would_be_compared_with_something_else_is_refused(message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encoded([ROWS[0], {**ROWS[1], **FAULTS[message]}, *ROWS[2:]])


def test_prompts_that_repeat_are_told() -> None:
    assert "3 of 7 prompts are there before: intervals over prompts are too narrow" in encoded([*ROWS, *ROWS[:3]]).notes


def test_a_folder_of_a_run_hides_no_set_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ioi").mkdir()
    monkeypatch.chdir(tmp_path)
    assert len(read_pairs("ioi")) == 64
