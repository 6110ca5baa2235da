"""Pairs as a task: the series' own tokenizer, a run's own words, or numbers; and a line for what does not fit."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from stagewise.architectures import full
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.tasks.pairs import Pairs, pairs_task
from stagewise.tasks.tokens import own_task

ROWS = [{"prompt": f"{a} {b} {a}", "right": b, "wrong": a} for a, b in ((1, 2), (3, 4), (5, 6), (7, 8))]


def written(path: Path, rows: Any = ROWS) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf8")
    return path


def series(d_vocab: int = 12, n_ctx: int = 6) -> CheckpointSeries:
    return CheckpointSeries(
        "mine", full(d_vocab, n_ctx, n_layers=1, n_heads=1, d_model=4, d_mlp=4), (0,), lambda step: {}
    )


def test_prompts_may_be_numbers_where_there_is_no_tokenizer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = pairs_task(series(), written(tmp_path / "pairs.jsonl"))
    assert task.sample(99, 0).tokens.tolist() == [[1, 2, 1], [3, 4, 3], [5, 6, 5], [7, 8, 7]]
    assert (task.available, task.n_ctx, task.d_vocab) == (4, 3, 9)
    assert "answers follow a space: the first one's token is '2', 2" in capsys.readouterr().err


def test_a_sample_takes_different_prompts(tmp_path: Path) -> None:
    task = Pairs(str(written(tmp_path / "pairs.jsonl")))
    assert len({tuple(row) for row in task.sample(3, seed=1).tokens.tolist()}) == 3


def test_a_tokenizer_reads_words(tmp_path: Path, tokenizer: str) -> None:
    rows = [{"prompt": "the dog saw the", "right": right, "wrong": "again"} for right in ("cat", "bird", "dog", "cat")]
    task = pairs_task(series(), written(tmp_path / "pairs.jsonl", rows), tokenizer)
    assert task.sample(4, 0).tokens[0].tolist() == [1, 4, 3, 1]


def test_the_words_of_the_task_that_a_run_was_trained_on_are_read(tmp_path: Path) -> None:
    task = dataclasses.replace(Pairs(str(written(tmp_path / "pairs.jsonl"))), words=tuple("0123456789"))
    assert task.sample(4, 0).tokens[0].tolist() == [1, 2, 1]
    assert task.as_text([3]) == ["3"]


def test_what_does_not_fit_the_models_is_a_line(tmp_path: Path) -> None:
    file = written(tmp_path / "pairs.jsonl")
    with pytest.raises(ValueError, match="holds token 8, and the models of mine have 5"):
        pairs_task(series(d_vocab=5), file)
    with pytest.raises(ValueError, match="has prompts of up to 3 tokens, and the models of mine see 2"):
        pairs_task(series(n_ctx=2), file)
    with pytest.raises(FileNotFoundError, match=r"the prompts are no numbers\. Give the tokenizer"):
        pairs_task(series(), written(tmp_path / "words.jsonl", [{"prompt": "a b", "right": "c", "wrong": "d"}] * 4))
    with pytest.raises(ValueError, match="give either pairs, or tokens or a text"):
        own_task(series(), tokens="x.npy", pairs=file)
    with pytest.raises(ValueError, match="'x' in 'x' is no token of the models: tokens are numbers here"):
        Pairs(str(written(tmp_path / "x.jsonl", [{"prompt": "x", "right": "1", "wrong": "2"}] * 4))).sample(1, 0)
