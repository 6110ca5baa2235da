"""Attention on one sequence at the boundaries of stages: the right pattern, tokens as text."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from stagewise.architecture import Architecture
from stagewise.batch import Batch
from stagewise.checkpoints.run_folder import EXAMPLE
from stagewise.checkpoints.series import open_series
from stagewise.papers.linear_init import LinearInit
from stagewise.papers.tasks import SparseRegression
from stagewise.recipe import Recipe, TrainPlan
from stagewise.reporting import attention_view as example
from stagewise.reporting.attention_view import write_example
from stagewise.tasks import RepeatedTokens, Text
from stagewise.training import train

BATCH_EXAMPLE = RepeatedTokens(32, length=8).probe_batch(3, seed=0)


@pytest.fixture(scope="module")
def models(hugging_face: Callable[..., nn.Module]) -> list[tuple[int, nn.Module]]:
    return [(0, hugging_face("GPT2")), (10, hugging_face("GPT2", 1))]


def written(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / EXAMPLE).read_text())
    return found


def test_the_example_holds_the_models_own_patterns_on_the_first_sequence(
    models: list[tuple[int, nn.Module]], tmp_path: Path
) -> None:
    write_example(tmp_path, open_series(models), None, batch=BATCH_EXAMPLE)
    shown = written(tmp_path)
    with torch.no_grad():
        patterns = models[1][1](BATCH_EXAMPLE.tokens[:1], output_attentions=True).attentions
    assert shown["heads"] == [f"L{layer}H{head}" for layer in range(2) for head in range(4)]
    assert list(shown["attention"]) == ["10"]
    np.testing.assert_allclose(shown["attention"]["10"], torch.cat(patterns)[:].flatten(0, 1), atol=1e-4)
    assert shown["tokens"] == [str(token) for token in BATCH_EXAMPLE.tokens[0].tolist()]


def test_of_many_heads_those_stay_that_moved_most(
    models: list[tuple[int, nn.Module]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_example(tmp_path, open_series(models), None, batch=BATCH_EXAMPLE)
    whole = written(tmp_path)
    monkeypatch.setattr(example, "EXAMPLE_VALUES", 2 * len(whole["tokens"]) ** 2)
    write_example(tmp_path, open_series(models), None, batch=BATCH_EXAMPLE)
    few = written(tmp_path)
    places = [whole["heads"].index(name) for name in few["heads"]]
    assert len(places) == 2
    assert few["attention"]["10"] == [whole["attention"]["10"][place] for place in places]


def test_a_corrupted_prompt_is_shown_beside_the_prompt(models: list[tuple[int, nn.Module]], tmp_path: Path) -> None:
    rows = [{"prompt": f"{a} {b} {a}", "corrupted": f"{a} {b} 9", "right": str(b), "wrong": str(a)}
            for a in (1, 2) for b in (3, 4)]  # fmt: skip
    batch = Batch.from_pairs(rows, lambda text: [int(word) for word in text.split()])
    write_example(tmp_path, open_series(models), None, batch=batch)
    shown = written(tmp_path)
    with torch.no_grad():
        patterns = models[1][1](torch.tensor([[1, 3, 9]]), output_attentions=True).attentions
    assert (shown["tokens"], shown["corrupted"]["tokens"]) == (["1", "3", "1"], ["1", "3", "9"])
    np.testing.assert_allclose(shown["corrupted"]["attention"]["10"], torch.cat(patterns).flatten(0, 1), atol=1e-4)


def test_tokens_are_written_as_the_task_writes_them(
    models: list[tuple[int, nn.Module]], tmp_path: Path, tokenizer: str
) -> None:
    task = Text(tokenizer, text="the cat saw the dog and the cat again " * 20, length=8)
    write_example(tmp_path, open_series(models), None, task)
    assert {word.strip() for word in written(tmp_path)["tokens"]} <= {"the", "cat", "saw", "dog", "and", "again"}


def test_input_vectors_are_written_as_positions(tmp_path: Path) -> None:
    task, plan = SparseRegression(n_positions=5, d=3), TrainPlan(steps=2, batch_size=4, save=(0, 2))
    sizes = {"n_layers": 1, "n_heads": 2, "d_model": 8, "d_head": 4, "d_mlp": 16, "act_fn": "gelu"}
    sizes |= {"n_ctx": task.n_ctx, "d_vocab": task.d_vocab, "d_vocab_out": 3, "normalization_type": None}
    series = train(Recipe(task, Architecture(sizes, LinearInit()), plan), tmp_path, progress=False)
    write_example(tmp_path, series, None, task)
    assert written(tmp_path)["tokens"] == ["0", "1", "2", "3", "4"]
