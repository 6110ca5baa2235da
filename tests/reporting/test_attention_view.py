"""One checkpoint's attention in circuitsvis: the right pattern, tokens as text, what is refused."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import stagewise
from stagewise import models as model
from stagewise.architecture import Architecture
from stagewise.checkpoints.run_folder import EXAMPLE
from stagewise.checkpoints.series import CheckpointSeries, open_series
from stagewise.init import LinearInit
from stagewise.recipe import Recipe, TrainPlan
from stagewise.reporting import attention_view as example
from stagewise.reporting.attention_view import write_example
from stagewise.task import Batch
from stagewise.tasks import RepeatedTokens, SparseRegression, Text
from stagewise.training import train

BATCH = RepeatedTokens(32, length=8).probe_batch(3, seed=0)


def arguments(view: Any) -> dict[str, Any]:
    """What circuitsvis was given."""
    match = re.search(r'render\(\s*"[^"]+",\s*AttentionHeads,\s*(\{.*\})\s*\)\s*</script>', view.cdn_src, re.DOTALL)
    assert match is not None
    found: dict[str, Any] = json.loads(match[1])
    return found


@pytest.mark.parametrize("kind", ["GPT2", "Llama"])
def test_the_view_holds_the_models_own_pattern(kind: str, hugging_face: Callable[..., nn.Module]) -> None:
    models = [(0, hugging_face(kind)), (10, hugging_face(kind, 1))]
    shown = arguments(stagewise.show_attention(open_series(models), 10, 1, BATCH, sequence=2))
    with torch.no_grad():
        expected = models[1][1](BATCH.tokens[2:], output_attentions=True).attentions[1][0]
    assert shown["attentionHeadNames"] == ["L1H0", "L1H1", "L1H2", "L1H3"]
    np.testing.assert_allclose(np.array(shown["attention"]), expected.numpy(), atol=1e-4)
    assert shown["tokens"] == [str(token) for token in BATCH.tokens[2].tolist()]


def test_tokens_are_text_where_somebody_knows_it(small_run: CheckpointSeries) -> None:
    class Letters:
        def decode(self, tokens: list[int]) -> str:
            return "abcd"[tokens[0]]

    batch = small_run_batch()
    expected = ["abcd"[token] for token in batch.tokens[0].tolist()]
    by_tokenizer = stagewise.show_attention(small_run, 6, 0, batch, tokenizer=Letters())
    by_vocabulary = stagewise.show_attention(small_run, 6, 0, batch, vocabulary=list("abcd"))
    assert arguments(by_tokenizer)["tokens"] == arguments(by_vocabulary)["tokens"] == expected
    assert by_vocabulary._repr_html_()


def small_run_batch() -> Batch:
    tokens = torch.tensor([[0, 1, 2, 3]])
    return Batch(tokens, tokens, torch.ones(1, 4, dtype=torch.bool))


def test_without_a_batch_repeated_tokens_are_shown() -> None:
    made = stagewise.architectures.full(12, 14, n_layers=2, n_heads=2, d_model=8)
    series = open_series([(0, model.weights(model.build(made)))], architecture=made)
    shown = arguments(stagewise.show_attention(series, 0, 0))
    assert len(shown["tokens"]) == 14


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layer": 1}, "there is no layer 1: the model has 1, counted from 0"),
        ({"sequence": 1}, "there is no sequence 1: the batch has 1, counted from 0"),
        ({"step": 5}, "has no step 5; the nearest is"),
        ({"vocabulary": ["a", "b"]}, "the vocabulary has 2 tokens, and the sequence holds token 2"),
    ],
)
def test_what_is_not_there_is_refused(change: dict[str, Any], message: str, small_run: CheckpointSeries) -> None:
    with pytest.raises(ValueError, match=message):
        stagewise.show_attention(small_run, **{"step": 6, "layer": 0, "batch": small_run_batch(), **change})


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
