"""One checkpoint's attention in circuitsvis: the right pattern, tokens as text, what is refused."""

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import stagewise
from stagewise import models as model
from stagewise.checkpoints.series import CheckpointSeries, open_series
from stagewise.task import Batch
from stagewise.tasks import RepeatedTokens

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
