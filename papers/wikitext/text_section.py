"""The section on models of text: which n-gram model is closest when, and which heads look where, since when."""

import html
from collections.abc import Sequence

import pandas as pd

from stagewise.criteria import DEFAULT
from stagewise.findings.crossings import Crossing, crossings
from stagewise.papers.wikitext.text_figures import N_GRAMS, head_curves, n_gram_curves
from stagewise.papers.wikitext.text_heads import head_onsets, head_rows, heads
from stagewise.reporting import Blocks, Measured, Plot, Section, html_table
from stagewise.table import select
from stagewise.words import at, span

OF_N_GRAMS = (
    "Above: KL to the n-gram models with no, one or two tokens of context (counts of the training text). Look for the "
    "curve that is lowest, and where the next one takes over (bands: 95&nbsp;% intervals). Below: the loss on held-out "
    "text, and those of the three n-gram models on the same tokens. Ribbons: 95&nbsp;% intervals over the windows."
)

OF_HEADS = (
    "Attention of each head to the token before, and to what followed the same token earlier: on held-out text, and on "
    "random tokens that come twice, where no knowledge of the language helps. Look for heads that rise, and which rise "
    "first. Dotted: the mass from which a head gets the name, {named:g}, a convention."
)

REPEATING = (
    "{share:.0%} of the training windows repeat an excerpt, which makes copying heads form earlier; the held-out text "
    "is unchanged."
)

TEXT, RANDOM = "held-out text", "repeated random tokens"

READS = ("KLToReference.kl", "LossAgainstReferences", "Loss", "AttentionTo")
COLUMNS = ("on", "kind", "head", "before", "largest", "at the end", "half-way at step")


def _text_section(measured: Measured) -> Blocks:
    """Say which n-gram model is closest, and what the heads do; nothing without such references."""
    if not set(N_GRAMS) <= {name for names in measured.families().values() for name in names}:
        return []
    measured = measured.only(READS, arrays=["resamples"])
    table = measured.table
    order = crossings(table, N_GRAMS)
    blocks: Blocks = []
    if share := measured.run.get("recipe", {}).get("task", {}).get("repeating"):
        blocks.append(_paragraph(REPEATING.format(share=share)))
    blocks.append(_paragraph(_order_in_words(order)))
    if measured.has("LossAgainstReferences"):
        blocks.append(_paragraph(_loss_in_words(table)))
    rows = table[table["probe"].isin(("KLToReference", "LossAgainstReferences", "Loss"))]
    blocks.append(Plot("n-grams", {"": n_gram_curves(table, order)}, rows, OF_N_GRAMS))
    return blocks + _heads(measured)


def _heads(measured: Measured) -> Blocks:
    batches = {TEXT: measured.table, RANDOM: measured.repeated}
    tables = {
        name: rows for name, rows in batches.items() if rows is not None and (rows["probe"] == "AttentionTo").any()
    }
    if not tables:
        return []
    criteria = DEFAULT if measured.stages is None else measured.stages.criteria
    onsets = {name: head_onsets(table, criteria) for name, table in tables.items()}
    last = int(measured.table["step"].max())
    panels = {
        label: ax for name, table in tables.items() for label, ax in head_curves(table, name, criteria.named).items()
    }
    rows = pd.concat([select(table, "AttentionTo", "along").assign(batch=name) for name, table in tables.items()])
    return [
        *(_paragraph(f"On {name}: {heads(rows, last)}") for name, rows in onsets.items()),
        Plot("text-heads", panels, rows, OF_HEADS.format(named=criteria.named)),
        html_table(COLUMNS, [row for name, rows in onsets.items() for row in head_rows(rows, name)]),
    ]


def _paragraph(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"


def _order_in_words(order: Sequence[Crossing]) -> str:
    """Say which reference was closest until when, and what was not seen."""
    words = f"Closest to the {order[0].before} model"
    latest = 0.0
    for crossing in order:
        if not crossing.seen:
            return f"{words}; not to the {crossing.after} model by {at(crossing.lo)}."
        if crossing.lo < latest:
            return f"{words}; whether the {crossing.after} model came later cannot be decided: the intervals overlap."
        words += f" until {span(crossing.lo, crossing.hi)}, then to the {crossing.after} model"
        latest = crossing.hi
    return f"{words}."


def _loss_in_words(table: pd.DataFrame) -> str:
    """Say how the last checkpoint predicts beside each n-gram model, with intervals; nats a token."""
    step = int(table["step"].max())
    loss = select(table, "Loss", "cross_entropy", step=step).iloc[0]
    parts = []
    for name in N_GRAMS:
        gap = select(table, "LossAgainstReferences", "gap", reference=name, step=step).iloc[0]
        other = select(table, "LossAgainstReferences", "cross_entropy", reference=name, step=step)["value"].iloc[0]
        parts.append(
            f"{_side(gap)} the {name} model's {other:.2f} ({gap['value']:+.2f} [{gap['lo']:+.2f}, {gap['hi']:+.2f}])"
        )
    return f"At {at(step)} the loss on held-out text is {loss['value']:.2f} nats a token: {', '.join(parts)}."


def _side(gap: pd.Series) -> str:
    """Say on which side of zero a difference surely lies."""
    if gap["hi"] < 0:
        return "below"
    return "above" if gap["lo"] > 0 else "not distinguishable from"


SECTION = Section(
    "text",
    "What it learned of the text",
    _text_section,
    ("KLToReference.kl", "LossAgainstReferences"),
    applies=False,
    folded=False,
)
