"""The default probes: chosen by what the batch holds."""

import math
from collections.abc import Callable, Sequence
from typing import Literal

from stagewise import probes
from stagewise.architecture import Architecture
from stagewise.batch import Prompts
from stagewise.prediction_classes import prediction_classes
from stagewise.probe import AbstractProbe
from stagewise.task import AbstractTask, Batch

_EVERY_KIND = 32
"""Heads of a model up to which each is ablated in every way, by the mean alone beyond: a third of the passes. There
attribution stands beside it, which is what takes its place where ablations take too long."""

_MANY_PRODUCTS = 1e12
"""Products of numbers in the ablations of all heads, half a minute on one core, from which on a model of more than
`_EVERY_KIND` heads has them all ablated on few sequences, and on all of them only those that matter."""

_MAPS = 60_000
"""Numbers a checkpoint, averaged over the batch, that are kept by offset; and the attention weights of maps."""

LONG, NEAR = 32, 16
"""In sequences longer than the first number heads are clustered by the second number of offsets: farther ones hold
little, and that evenly."""

_LEARNED = ("gpt2", "gpt_bigcode", "gpt_neo", "opt")
"""Hugging Face's model types with learned positions."""

_POSITIONS = 128
"""Learned positions that are compared."""

_FEW = 30
"""Learned positions below which no share of them is read: of so few, one or two whose best key changes would be an
onset, also of heads that ignore positions."""

Probes = Sequence[AbstractProbe] | Callable[[Architecture, Batch, AbstractTask | None], Sequence[AbstractProbe]] | None
"""Probes, or a function that chooses them as `default_probes` does, which None takes."""


def chosen_probes(
    probes: Probes, extra: Sequence[AbstractProbe], architecture: Architecture, batch: Batch, task: AbstractTask | None
) -> list[AbstractProbe]:
    """Return the probes and the extra ones, which replace others of their kind."""
    choose = default_probes if probes is None else probes
    chosen = choose(architecture, batch, task) if callable(choose) else choose
    kinds = {type(probe) for probe in extra}
    return [*(probe for probe in chosen if type(probe) not in kinds), *extra]


def default_probes(architecture: Architecture, batch: Batch, task: AbstractTask | None = None) -> list[AbstractProbe]:
    """Return the probes that this batch and a model of this size allow.

    Every task gets head-specialisation scores, the KL to restricted contexts, head ablations with their controls, and
    clusters of attention patterns, whatever the size of the model; the others are there where the batch holds what they
    read. A model of many heads is ablated by the mean alone, with the estimates from gradients beside, and its maps are
    those of the first positions. On one sequence alone, which is its own mean, heads are ablated by zero. Prompts with
    answers get their behaviour's curve, the effects of heads on it, and what these attend to.

    Args:
        architecture: of the models.
        batch: the probe batch.
        task: what the batch was drawn from, for the contexts and the value features that it names.
    """
    if isinstance(batch, Prompts):
        patches = ("noising", "denoising", *(["neutral"] if "neutral" in batch.others else []))
        heads = [] if batch.summed else [probes.BehaviourHeads(tuple(batch.places), patches)]
        return [probes.Loss(), probes.BehaviourCurve(), *heads, probes.AttentionTo()]
    chosen: list[AbstractProbe] = [probes.Loss(), *_of_predictions(batch)]
    chosen += [probes.AttentionEntropy(), probes.AttentionDistance()]
    if batch.relations:
        chosen.append(probes.AttentionTo())
    if len(batch.relations) > 1:
        chosen.append(probes.HeadSpecialisation())
    chosen.append(probes.PatternClusters(NEAR if batch.tokens.shape[1] > LONG else None))
    chosen += _of_edits(architecture, batch, _contexts(batch, task)) + _of_maps(architecture, batch)
    return chosen + _of_weights(architecture, batch, task)


def _of_predictions(batch: Batch) -> list[AbstractProbe]:
    """Return the probes that read the predictions, fewer for a regression and where targets are no next tokens."""
    to_references = [probes.KLToReference(), probes.LossAgainstReferences()] if batch.references else []
    if batch.is_regression:
        return to_references
    chosen = [probes.Accuracy(), *to_references]
    # Where every target is the token that follows, scored or not, each position has a loss that means it.
    if batch.tokens.shape[1] > 1 and bool((batch.targets[:, :-1] == batch.tokens[:, 1:]).all()):
        chosen += [probes.LossByPosition(), probes.InContextLearning()]
        some = bool((~batch.scored).any(1).all())
        if some and not bool((prediction_classes(batch, ())["of new tokens"] & batch.scored).any()):
            chosen.append(probes.Copying())
    return chosen


def _contexts(batch: Batch, task: AbstractTask | None) -> tuple[int, ...]:
    """Return the contexts to restrict to: 1, those that the task names and one beyond them, or the powers of two."""
    length = batch.tokens.shape[1]
    if task is None or not task.contexts:
        return tuple(2**power for power in range(length.bit_length()) if 2**power < length) or (1,)
    previous, last = (0, *task.contexts)[-2:]
    return tuple(sorted({1, *task.contexts, min(2 * last - previous, length)}))


def _of_edits(architecture: Architecture, batch: Batch, contexts: tuple[int, ...]) -> list[AbstractProbe]:
    """Return the probes of edited passes: of every head, whatever the size of the model."""
    restricted, alone = probes.RestrictedContextKL(contexts), len(batch) == 1
    if architecture.n_layers * architecture.n_heads <= _EVERY_KIND:
        return [restricted, probes.HeadAblation(kinds=("zero",)) if alone else probes.HeadAblation()]
    kind: Literal["zero", "mean"] = "zero" if alone else "mean"
    exact = alone or _products(architecture, batch) < _MANY_PRODUCTS
    return [restricted, probes.HeadAblation(kinds=(kind,), exact=exact), probes.HeadAttribution(kind)]


def _products(architecture: Architecture, batch: Batch) -> float:
    """Return about how many numbers are multiplied where every head is ablated on every sequence."""
    n_layers, width = architecture.n_layers, int(architecture.config["d_model"])
    # Four matrices of attention and two of an MLP that is four times as wide, in half of the layers.
    at_position = 6 * n_layers * width**2 * batch.tokens[0].shape[0]
    unembedded = width * architecture.n_outputs * float(batch.scored.sum()) / len(batch)
    return n_layers * architecture.n_heads * len(batch) * (at_position + unembedded)


def _of_maps(architecture: Architecture, batch: Batch) -> list[AbstractProbe]:
    """Return the probes that keep mean attention by offset and by position, of near offsets and first positions."""
    positions, heads = batch.tokens.shape[1], architecture.n_layers * architecture.n_heads
    offsets, shown = _MAPS // heads, math.isqrt(_MAPS // heads)
    return [
        probes.OffsetProfile(None if positions <= offsets else max(NEAR, offsets) - 1),
        probes.MeanPattern(None if positions <= shown else max(NEAR, shown)),
    ]


def _of_weights(architecture: Architecture, batch: Batch, task: AbstractTask | None) -> list[AbstractProbe]:
    """Return the probes of the weights: what heads copy and attend to, what they write."""
    config, chosen = architecture.config, list[AbstractProbe]()
    if not batch.is_regression and architecture.n_outputs == config["d_vocab"]:
        chosen.append(probes.OVCopying())
    kind = (architecture.huggingface or {}).get("model_type")
    learned = kind in _LEARNED or (kind is None and config.get("positional_embedding_type", "standard") == "standard")
    if learned and (positions := int(config["n_ctx"])) >= _FEW:
        chosen.append(probes.QKOffset(positions=min(_POSITIONS, positions)))
    features = {} if task is None else dict(task.value_features())
    sizes = (architecture.n_outputs, int(config["d_vocab"]))
    readable = architecture.huggingface is None and config.get("normalization_type", "LN") is None
    if features and readable and all(tuple(matrix.shape) == sizes for matrix in features.values()):
        chosen.append(probes.ValueAlignment(features))
    return chosen
