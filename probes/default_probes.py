"""The default probes: chosen by what the batch holds and how large the model is."""

import logging
import math

import torch

from stagewise.architecture import Architecture
from stagewise.probe import AbstractProbe
from stagewise.probes import (
    Accuracy,
    AttentionDistance,
    AttentionEntropy,
    AttentionTo,
    Composition,
    Copying,
    EffectiveSupport,
    HeadAblation,
    HeadSpecialisation,
    InContextLearning,
    KLToReference,
    Loss,
    LossAgainstReferences,
    LossByPosition,
    MeanPattern,
    OffsetProfile,
    OVCopying,
    ParticipationRatio,
    PatternClusters,
    QKOffset,
    RestrictedContextKL,
    ValueAlignment,
)
from stagewise.task import AbstractTask, Batch

EDITED_NUMBERS = 3 * 10**8
"""Largest number of log-probabilities of a checkpoint's edited passes, which are all in memory at once."""

EVERY_KIND = 10**8
"""Log-probabilities up to which heads are ablated in every way, by the mean alone beyond."""

MAPS = 60_000
"""Attention weights of a checkpoint, averaged over the batch, that are kept as maps or by offset."""

LEAST_SHOWN = 0.75
"""Share of the positions from which on a map of the first ones is worth storing."""

LONG, NEAR = 32, 16
"""In sequences longer than the first number heads are clustered by the second number of offsets: farther ones hold
little, and that evenly."""

PRODUCT = 10**11
"""Multiplications of unembedding and embedding, a second or a few a checkpoint."""

LEARNED = ("gpt2", "gpt_bigcode", "gpt_neo", "opt")
"""Hugging Face's model types with learned positions."""

POSITIONS = 128
"""Learned positions that are compared."""

COMPOSED = 32
"""Heads of a model whose pairs are all listed."""


def default_probes(architecture: Architecture, batch: Batch, task: AbstractTask | None = None) -> list[AbstractProbe]:
    """Return the probes that this batch and a model of this size allow.

    Every task gets head-specialisation scores, the KL to restricted contexts, head ablations with their controls, and
    clusters of attention patterns; the others are there where the batch holds what they read. What is left out for its
    size is logged in one line.

    Args:
        architecture: of the models.
        batch: the probe batch.
        task: what the batch was drawn from, for the contexts and the value features that it names.
    """
    chosen: list[AbstractProbe] = [Loss(), *_of_predictions(batch)]
    chosen += [AttentionEntropy(), EffectiveSupport(), AttentionDistance(), ParticipationRatio()]
    if batch.relations:
        chosen.append(AttentionTo())
    if len(batch.relations) > 1:
        chosen.append(HeadSpecialisation())
    chosen.append(PatternClusters(NEAR if batch.tokens.shape[1] > LONG else None))
    edited, too_large = _of_edits(architecture, batch, _contexts(batch, task))
    maps, too_wide = _of_maps(architecture, batch)
    chosen += edited + maps + _of_weights(architecture, batch, task)
    if left_out := too_large + too_wide:
        logging.getLogger("stagewise").warning("left out for the size of the model: %s", "; ".join(left_out))
    return chosen


def _of_predictions(batch: Batch) -> list[AbstractProbe]:
    """Return what is read off the predictions, less for a regression and where targets are no next tokens."""
    chosen: list[AbstractProbe] = []
    if not batch.is_regression:
        chosen.append(Accuracy())
    if batch.references:
        chosen += [KLToReference(), LossAgainstReferences()]
    if not batch.is_regression and _next_tokens(batch):
        chosen += [LossByPosition(), InContextLearning()]
        if bool((~batch.scored).any(1).all()) and _in_context(batch):
            chosen.append(Copying())
    return chosen


def _next_tokens(batch: Batch) -> bool:
    """Whether every target is the token that follows, scored or not: then each position has a loss that means it."""
    return batch.tokens.shape[1] > 1 and bool((batch.targets[:, :-1] == batch.tokens[:, 1:]).all())


def _in_context(batch: Batch) -> bool:
    """Whether every scored target came in its sequence before."""
    length = batch.tokens.shape[1]
    earlier = torch.ones(length, length, dtype=torch.bool, device=batch.tokens.device).tril()
    equal = (batch.targets[:, :, None] == batch.tokens[:, None]) & earlier
    return bool((equal.any(-1) | ~batch.scored).all())


def _contexts(batch: Batch, task: AbstractTask | None) -> tuple[int, ...]:
    """Return the contexts to restrict to: 1, those that the task names and one beyond them, or the powers of two."""
    length = batch.tokens.shape[1]
    if task is None or not task.contexts:
        return tuple(2**power for power in range(length.bit_length()) if 2**power < length) or (1,)
    previous, last = (0, *task.contexts)[-2:]
    return tuple(sorted({1, *task.contexts, min(2 * last - previous, length)}))


def _of_edits(
    architecture: Architecture, batch: Batch, contexts: tuple[int, ...]
) -> tuple[list[AbstractProbe], list[str]]:
    """Return the probes of edited passes that fit into memory, and what does not."""
    one_pass = batch.tokens.numel() * int(architecture.config["d_vocab"])
    heads = architecture.n_layers * architecture.n_heads
    chosen: list[AbstractProbe] = []
    left_out = []
    if one_pass * len(contexts) <= EDITED_NUMBERS:
        chosen.append(RestrictedContextKL(contexts))
    else:
        left_out.append(f"RestrictedContextKL ({len(contexts)} passes of {one_pass:.1e} log-probabilities)")
    if 3 * one_pass * heads <= EVERY_KIND:
        chosen.append(HeadAblation())
    elif (
        one_pass * (heads + len(contexts)) <= EDITED_NUMBERS
        and architecture.n_layers * heads <= MAPS // batch.tokens.shape[1]
    ):
        chosen.append(HeadAblation(kinds=("mean",)))
        left_out.append("zero and resample ablation")
    else:
        left_out.append(f"HeadAblation ({heads} passes of {one_pass:.1e} log-probabilities)")
    return chosen, left_out


def _of_maps(architecture: Architecture, batch: Batch) -> tuple[list[AbstractProbe], list[str]]:
    """Return the probes that keep mean attention by offset and by position, and what would be too much of it."""
    positions, heads = batch.tokens.shape[1], architecture.n_layers * architecture.n_heads
    chosen: list[AbstractProbe] = []
    left_out = []
    if heads * positions <= MAPS:
        chosen.append(OffsetProfile())
    else:
        left_out.append(f"OffsetProfile ({heads} heads of {positions} offsets)")
    if heads * positions**2 <= MAPS:
        chosen.append(MeanPattern())
    elif (shown := math.isqrt(MAPS // heads)) >= LEAST_SHOWN * positions:
        chosen.append(MeanPattern(shown))
        left_out.append(f"attention maps beyond the first {shown} positions")
    else:
        left_out.append(f"MeanPattern ({heads} maps of {positions} positions)")
    return chosen, left_out


def _of_weights(architecture: Architecture, batch: Batch, task: AbstractTask | None) -> list[AbstractProbe]:
    """Return the probes of the weights: what heads copy and attend to, how they compose, what they write."""
    config, chosen = architecture.config, list[AbstractProbe]()
    if not batch.is_regression and int(config["d_model"]) ** 2 * int(config["d_vocab"]) <= PRODUCT:
        chosen.append(OVCopying())
    kind = (architecture.huggingface or {}).get("model_type")
    if kind in LEARNED or (kind is None and config.get("positional_embedding_type", "standard") == "standard"):
        chosen.append(QKOffset(positions=min(POSITIONS, int(config["n_ctx"]))))
    if architecture.n_layers > 1 and architecture.n_layers * architecture.n_heads <= COMPOSED:
        chosen.append(Composition())
    features = {} if task is None else dict(task.value_features())
    sizes = (int(config.get("d_vocab_out") or config["d_vocab"]), int(config["d_vocab"]))
    readable = architecture.huggingface is None and config.get("normalization_type", "LN") is None
    if features and readable and all(tuple(matrix.shape) == sizes for matrix in features.values()):
        chosen.append(ValueAlignment(features))
    return chosen
