"""The sections on scores of single heads over training: how they attend, what they write, what their weights show."""

import html
from collections.abc import Iterable

from stagewise import plot
from stagewise.plot._quantities import quantity_of
from stagewise.plot.heads import moved_most
from stagewise.reporting._figure import Plot
from stagewise.reporting._measured import Measured
from stagewise.reporting._section import PANELS, Blocks, Section, left_out, never_missing
from stagewise.table import head_label, select

NARROW = (
    "Entropy of each head's attention, averaged over the scored queries; exp(entropy) keys would hold it "
    "if they had equal shares. Look for heads that narrow down, and when. "
)
SCORES = (
    ("EffectiveSupport", "keys"),
    ("AttentionDistance", "distance"),
    ("ParticipationRatio", "dimensions"),
)
WRITTEN = {
    "cosine": "1 where the head writes this feature and nothing else",
    "projection": "how much of the feature the head writes; below zero it cancels what other heads write",
}
"""Quantities of what a head writes -> how they are read."""

OF_WEIGHTS = {
    ("OVCopying", "copying"): (
        "The eigenvalues of each head's map from tokens to logits, their sum over the sum of their sizes; the heads in "
        "which it changed most. Look for heads that rise to 1: they write the token that they read. Weights alone, "
        "without normalisation."
    ),
    ("QKOffset", "share"): (
        "The share of positions for which the head's highest positional score is at the position before; the heads in "
        "which it changed most. Look for heads that rise to 1: by their positions they are previous-token heads, "
        "whatever they do with tokens. Weights alone, without normalisation."
    ),
}
COMPOSITION = (
    "How much a head's queries, keys or values (Q, K, V) read what an earlier head writes; in colour the pairs in "
    "which it changed most. Look for K-composition with a previous-token head: an induction head is made of it. Random "
    "weights do not have 0: compare with the first checkpoint."
)


def _figures(measured: Measured, captions: Iterable[tuple[str, str, str]], prefix: str) -> Blocks:
    """Return a figure for each score (probe, quantity, caption) that was measured, of the heads that moved most."""
    table, stages = measured.table, measured.stages
    blocks: Blocks = []
    for probe, name, caption in captions:
        if measured.has(f"{probe}.{name}"):
            rows = select(table, probe, name)
            axes = plot.head_scores(table, probe, name, moved_most(rows, PANELS), stages)
            blocks.append(Plot(f"{prefix}-{name}", {"": axes}, rows, caption))
    return blocks


def _label(measured: Measured, probe: str, name: str) -> str:
    return html.escape(quantity_of(measured.table, probe, name).label.capitalize())


def _entropy(measured: Measured) -> Blocks:
    rows = select(measured.table, "AttentionEntropy", "entropy")
    axes = plot.entropy(measured.table, moved_most(rows, PANELS), measured.stages)
    return [Plot("entropy", {"": axes}, rows, NARROW + left_out(rows, "entropy moved"))]


def _attention_scores(measured: Measured) -> Blocks:
    drawn = "of each head over training; drawn are those in which it changed most."
    captions = ((*score, f"{_label(measured, *score)} {drawn}") for score in SCORES)
    return _figures(measured, captions, "heads")


def _written(measured: Measured) -> Blocks:
    """Return the alignment of each head's value map with each feature."""
    table = measured.table
    blocks: Blocks = []
    for name, look in WRITTEN.items():
        if measured.has(f"ValueAlignment.{name}"):
            rows = select(table, "ValueAlignment", name)
            panels = {
                head_label(*head): plot.value_alignment(table, *head, name, measured.stages)
                for head in moved_most(rows, PANELS)
            }
            label = _label(measured, "ValueAlignment", name)
            caption = f"{label}, for each head's value map: {look}. {left_out(rows, 'value moved')}"
            blocks.append(Plot(f"value-{name}", panels, rows, caption))
    return blocks


def _of_weights(measured: Measured) -> Blocks:
    blocks = _figures(measured, ((*score, caption) for score, caption in OF_WEIGHTS.items()), "weights")
    if measured.has("Composition.score"):
        rows = select(measured.table, "Composition", "score")
        figure = plot.quantity(measured.table, "Composition", "score", measured.stages, words=_pair)
        blocks.append(Plot("composition", {"": figure}, rows, COMPOSITION))
    return blocks


def _pair(labels: dict[str, object]) -> str:
    head = head_label(int(str(labels["layer"])), int(str(labels["head"])))
    return f"{head} of {labels['source']}, {labels['composition']}"


VALUES = Section("values", "What each head writes", _written, ("ValueAlignment",), applies=never_missing)
ENTROPY = Section("entropy", "How widely each head attends", _entropy, ("AttentionEntropy.entropy",))
WEIGHTS = Section(
    "weights",
    "What the weights alone show",
    _of_weights,
    (*map(".".join, OF_WEIGHTS), "Composition.score"),
    of_batch=False,
)
HEAD_SCORES = Section(
    "head-scores",
    "How many keys, how far, how many dimensions",
    _attention_scores,
    tuple(map(".".join, SCORES)),
)
