"""The attention of one checkpoint on one sequence, as circuitsvis shows it."""

from collections.abc import Sequence
from typing import Any

from stagewise import models
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.probe import pattern_hooks
from stagewise.reporting._viewer import DIGITS
from stagewise.table import head_label
from stagewise.task import Batch
from stagewise.tasks import RepeatedTokens


def show_attention(
    series: CheckpointSeries,
    step: int,
    layer: int,
    batch: Batch | None = None,
    *,
    sequence: int = 0,
    tokenizer: Any = None,
    vocabulary: Sequence[str] | None = None,
    device: str = "cpu",
) -> Any:
    """Return circuitsvis's view of a layer's attention at a step, which a notebook shows: its `RenderedHTML`.

    Only this checkpoint is read, and only this sequence goes through the model.

    Args:
        series: from any source.
        step: of the checkpoint.
        layer: counted from 0.
        batch: whose sequence is shown; None takes `RepeatedTokens` of the model's size.
        sequence: which one, counted from 0.
        tokenizer: of the model, to write tokens as text: anything with `decode`.
        vocabulary: the tokens as text, by number, where there is no tokenizer; without either, numbers are shown.
        device: where to run the model.

    Raises:
        ValueError: the series has no such step, the model no such layer, the batch no such sequence, or the
            vocabulary lacks a token.

    Source: circuitsvis, `attention.attention_heads`.
    """
    batch = RepeatedTokens.for_model(series.architecture).probe_batch(sequence + 1, seed=0) if batch is None else batch
    if not 0 <= layer < series.architecture.n_layers:
        raise ValueError(f"there is no layer {layer}: the model has {series.architecture.n_layers}, counted from 0")
    if not 0 <= sequence < len(batch):
        raise ValueError(f"there is no sequence {sequence}: the batch has {len(batch)}, counted from 0")
    if batch.tokens.is_floating_point():
        raise ValueError("show_attention shows tokens, and this batch holds vectors")
    model = series.model(step).to(device)
    tokens, hook = batch.tokens[sequence : sequence + 1], pattern_hooks(series.architecture)[layer]
    _, activations = models.clean_pass(model, tokens.to(device), [hook])
    # circuitsvis imports torch, which costs seconds where nothing else has: only who looks at attention pays them.
    from circuitsvis.attention import attention_heads

    pattern: list[Any] = activations[hook][0].cpu().double().numpy().round(DIGITS).tolist()
    names = [head_label(layer, head) for head in range(len(pattern))]
    return attention_heads(pattern, _as_text(tokens[0].tolist(), tokenizer, vocabulary), names)


def _as_text(tokens: Sequence[int], tokenizer: Any, vocabulary: Sequence[str] | None) -> list[str]:
    if tokenizer is not None:
        return [tokenizer.decode([token]) for token in tokens]
    if vocabulary is None:
        return [str(token) for token in tokens]
    if missing := sorted({token for token in tokens if token >= len(vocabulary)}):
        raise ValueError(f"the vocabulary has {len(vocabulary)} tokens, and the sequence holds token {missing[0]}")
    return [vocabulary[token] for token in tokens]
