"""The section on what the weights of each head do by themselves: copy, look back, read earlier heads."""

from stagewise import plot
from stagewise.plot.heads import moved_most
from stagewise.reporting.figure import Plot
from stagewise.reporting.measured import Measured
from stagewise.reporting.section import PANELS, Blocks, Section
from stagewise.table import head_label, select

LOOK = {
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


def _weights_section(measured: Measured) -> Blocks:
    """Return a figure a score of the weights."""
    table, stages = measured.table, measured.stages
    blocks: Blocks = []
    for (probe, name), look in LOOK.items():
        if measured.has(f"{probe}.{name}"):
            rows = select(table, probe, name)
            axes = plot.head_scores(table, probe, name, moved_most(rows, PANELS), stages)
            blocks.append(Plot(f"weights-{name}", {"": axes}, rows, look))
    if measured.has("Composition.score"):
        rows = select(table, "Composition", "score")
        figure = plot.quantity(table, "Composition", "score", stages, words=_pair)
        blocks.append(Plot("composition", {"": figure}, rows, COMPOSITION))
    return blocks


def _pair(labels: dict[str, object]) -> str:
    head = head_label(int(str(labels["layer"])), int(str(labels["head"])))
    return f"{head} of {labels['source']}, {labels['composition']}"


SECTION = Section(
    "weights",
    "What the weights alone show",
    _weights_section,
    ("OVCopying.copying", "QKOffset.share", "Composition.score"),
    of_batch=False,
)
