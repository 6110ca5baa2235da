"""The report's section on models of text: which n-gram law is closest when, and which heads look where, since when."""

import html
from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stagewise import plot
from stagewise.detection import head_words
from stagewise.detection.criteria import DEFAULT
from stagewise.detection.crossings import Crossing, crossings
from stagewise.detection.head_kinds import head_onsets
from stagewise.plot.colours import ordered_colours
from stagewise.plot.heads import head_curves
from stagewise.plot.step_axis import curve, label_ends, set_step_axis
from stagewise.reporting.figure import Plot
from stagewise.reporting.prose import html_table
from stagewise.reporting.sections.markov import Blocks, Measured
from stagewise.table import select

TEXT, RANDOM = "held-out text", "repeated random tokens"
N_GRAMS = ("unigram", "bigram", "trigram")

LAWS = (
    "Above: KL to the laws that know no, one or two tokens of context (counts of the training text). Look for the "
    "curve that is lowest, and where the next one takes over (bands: between which steps, 95&nbsp;%). Below: the loss "
    "on held-out text, and those of the three laws on the same tokens. Ribbons: 95&nbsp;% intervals over the windows."
)
HEADS = (
    "Attention of each head to the token before, and to what followed the same token earlier: on held-out text, and on "
    "random tokens that come twice, where no word helps. Look for heads that rise, and which rise first. Dotted: the "
    f"mass from which a head is called by the name, {DEFAULT.named}, a convention."
)
REPEATING = (
    "Of the training windows {:.0%} say an excerpt again and again, which hastens heads that copy; the held-out text "
    "is as it is."
)
COLUMNS = ("on", "kind", "head", "before", "largest", "at the end", "half-way at step")


def text_section(measured: Measured) -> Blocks:
    """Which n-gram law is closest, the loss against theirs, and the heads; nothing without n-gram references."""
    table = measured.table
    if not measured.has("KLToReference") or not set(N_GRAMS) <= set(table["reference"].dropna()):
        return []
    found = crossings(table, N_GRAMS)
    blocks: Blocks = []
    if share := measured.run.get("recipe", {}).get("task", {}).get("repeating"):
        blocks.append(_paragraph(REPEATING.format(share)))
    blocks.append(_paragraph(order_in_words(found)))
    if measured.has("LossAgainstReferences"):
        blocks.append(_paragraph(loss_in_words(table)))
    rows = table[table["probe"].isin(("KLToReference", "LossAgainstReferences", "Loss"))]
    blocks.append(Plot("n-grams", {"": n_gram_curves(table, found)}, rows, LAWS))
    return blocks + _heads(measured)


def _heads(measured: Measured) -> Blocks:
    batches = {TEXT: measured.table, RANDOM: measured.repeated}
    there = {
        name: rows for name, rows in batches.items() if rows is not None and (rows["probe"] == "AttentionTo").any()
    }
    if not there:
        return []
    found = {name: head_onsets(table) for name, table in there.items()}
    last = int(measured.table["step"].max())
    panels = {label: ax for name, table in there.items() for label, ax in head_curves(table, name).items()}
    shown = pd.concat([select(table, "AttentionTo", "along").assign(batch=name) for name, table in there.items()])
    return [
        *(_paragraph(f"On {name}: {head_words.heads(onsets, last)}") for name, onsets in found.items()),
        Plot("text-heads", panels, shown, HEADS),
        html_table(COLUMNS, [row for name, onsets in found.items() for row in head_words.head_rows(onsets, name)]),
    ]


def _paragraph(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"


def order_in_words(found: Sequence[Crossing]) -> str:
    """Say which reference was closest until when, and what was not seen.

    >>> order_in_words([Crossing("unigram", "bigram", 30, 50), Crossing("bigram", "trigram", 900, float("inf"))])
    'Closest to the unigram law until steps 30 to 50, then to the bigram law; not to the trigram law by step 900.'
    """
    words = f"Closest to the {found[0].before} law"
    latest = 0.0
    for crossing in found:
        if not crossing.seen:
            return f"{words}; not to the {crossing.after} law by step {crossing.lo:g}."
        if crossing.lo < latest:
            return f"{words}; whether the {crossing.after} law came later cannot be told: the intervals overlap."
        words += f" until steps {crossing.lo:g} to {crossing.hi:g}, then to the {crossing.after} law"
        latest = crossing.hi
    return f"{words}."


def loss_in_words(table: pd.DataFrame) -> str:
    """Say how the last checkpoint predicts against each law, with intervals; nats a token."""
    step = int(table["step"].max())
    loss = select(table, "Loss", "cross_entropy", step=step).iloc[0]
    parts = []
    for name in N_GRAMS:
        gap = select(table, "LossAgainstReferences", "gap", reference=name, step=step).iloc[0]
        law = select(table, "LossAgainstReferences", "cross_entropy", reference=name, step=step)["value"].iloc[0]
        side = "below" if gap["hi"] < 0 else "above" if gap["lo"] > 0 else "not told apart from"
        parts.append(f"{side} the {name} law's {law:.2f} ({gap['value']:+.2f} [{gap['lo']:+.2f}, {gap['hi']:+.2f}])")
    return f"At step {step} the loss on held-out text is {loss['value']:.2f} nats a token: {', '.join(parts)}."


def n_gram_curves(table: pd.DataFrame, found: Sequence[Crossing]) -> Figure:
    """Draw KL to the laws with the crossings, and the loss against theirs where it was measured."""
    losses = bool((table["probe"] == "LossAgainstReferences").any())
    figure = Figure(figsize=(7.6, 3.4 + 2.8 * losses), layout="constrained")
    axes = figure.subplots(1 + losses, 1, squeeze=False)[:, 0]
    colours = ordered_colours(N_GRAMS)
    for ax in axes:
        for crossing in found:
            if crossing.seen:
                ax.axvspan(crossing.lo, crossing.hi, color=colours[crossing.after], alpha=0.15, linewidth=0)
    plot.kl_curves(table, N_GRAMS, ax=axes[0])
    if losses:
        axes[0].set_xlabel("")
        _loss_curves(axes[1], table, colours)
    return figure


def _loss_curves(ax: Axes, table: pd.DataFrame, colours: Mapping[object, str]) -> None:
    loss = select(table, "Loss", "cross_entropy")
    set_step_axis(ax, loss["step"])
    for name in N_GRAMS:
        rows = select(table, "LossAgainstReferences", "cross_entropy", reference=name)
        ax.plot(rows["step"], rows["value"], color=colours[name], linewidth=1.0, label=name)
    curve(ax, loss, "model", "#222222", "o")
    ax.set_ylabel("loss on held-out text, nats")
    label_ends(ax)
