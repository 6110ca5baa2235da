"""The section on the stages: in words, as a table, and the curves they were found in."""

import pandas as pd
from matplotlib.figure import Figure

from stagewise import plot
from stagewise.findings.stages import Stages
from stagewise.reporting.figure import Plot
from stagewise.reporting.measured import Measured
from stagewise.reporting.prose import html_table, stage_rows, stages_in_words
from stagewise.reporting.section import Blocks, Section
from stagewise.table import select

COLUMNS = ("stage", "from step", "to step", "t10", "t50", "t90", "what happened")

TABLE = (
    "<p>A stage begins with a transition: where the model begins to leave a partial solution (KL to it has its "
    "minimum), or else where half of the onsets that come together are half-way. In brackets: 95&nbsp;% intervals. "
    "t10, t50 and t90 are the steps at which 10, 50 and 90&nbsp;% of the transition had happened: of the fall in KL to "
    "the complete solution after a partial one is left, else the medians over its onsets.</p>"
)
NO_STAGES = (
    "<p>Stages are found in the KL to nested partial solutions, or in the onsets of scores, over at least four "
    "checkpoints. This run has neither, so no stages are shown.</p>"
)
NESTED = "Each reference is a partial solution, the last one the complete one. "
OTHERS = "Each reference is a predictor to compare the model with; the excess loss is that over the last one's. "
SEVERAL = (
    "Look for curves that fall to a <em>minimum</em> and rise again: there the model goes beyond that partial solution,"
    " and a stage ends. Shaded: the stages; hatched: the 95&nbsp;% interval of each boundary. "
)
ONE = "Look for a plateau before a curve rises again: there is none that counts. "
RIBBONS = "Ribbons: 95&nbsp;% intervals over the probe batch."


def _stages_section(measured: Measured) -> Blocks:
    """Say which stages there are, and draw KL to the references and the loss."""
    stages = measured.stages
    blocks: Blocks = []
    if stages is not None:
        blocks += [stages_in_words(stages), html_table(COLUMNS, stage_rows(stages))]
        blocks.append(TABLE)
    if measured.has("KLToReference.kl") or measured.has("Loss"):
        blocks += [] if stages is not None else [NO_STAGES]
        blocks.append(Plot("stages", {"": _curves(measured)}, _rows(measured), _caption(measured, stages)))
    return blocks


def _curves(measured: Measured) -> Figure:
    table, stages = measured.table, measured.stages
    kl, loss = measured.has("KLToReference.kl"), measured.has("Loss")
    figure = Figure(figsize=(7.6, 3.5 * kl + 2.2 * loss), layout="constrained")
    axes = figure.subplots(kl + loss, 1, squeeze=False, height_ratios=[3.4] * kl + [2] * loss)[:, 0]
    if kl:
        plot.kl_curves(table, stages=stages, ax=axes[0])
    if loss:
        plot.loss_curve(table, stages, ax=axes[-1])
        axes[0].set_xlabel("" if kl else axes[0].get_xlabel())
    return figure


def _rows(measured: Measured) -> pd.DataFrame:
    table, families = measured.table, measured.families()
    if not families:
        return select(table, "Loss")
    references = families["nested"] or [name for names in families.values() for name in names]
    kl = (table["probe"] == "KLToReference") & table["reference"].isin(references)
    return table[kl | (table["probe"] == "Loss")]


def _caption(measured: Measured, stages: Stages | None) -> str:
    families = measured.families()
    caption = ""
    if families:
        caption = NESTED if families["nested"] else OTHERS
    if stages is not None and stages.references:
        caption += SEVERAL if stages.table["left"].any() else ONE
    return caption + RIBBONS


SECTION = Section("stages", "The stages", _stages_section, ("KLToReference", "Loss"))
