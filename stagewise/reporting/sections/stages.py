"""The sections on the stages: in words, as a table, the curves they were found in, and why these boundaries."""

import html

import pandas as pd
from matplotlib.figure import Figure

from stagewise import plot
from stagewise.findings.stages import Stages
from stagewise.plot._curves import scalar
from stagewise.plot._strips import beyond_uniform
from stagewise.reporting._figure import Plot
from stagewise.reporting._measured import Measured
from stagewise.reporting._prose import html_table, number, stage_rows
from stagewise.reporting._section import Blocks, Section
from stagewise.words._grammar import capital
from stagewise.words._stages import turning_points
from stagewise.words._times import interval

COLUMNS = ("stage", "from step", "to step", "t10", "t50", "t90", "what happened")

TABLE = (
    "<p>A stage begins with a transition: where the model begins to leave a partial solution (KL to it has its "
    "minimum), or else where half of the onsets that come together are half-way. In brackets: 95&nbsp;% intervals. "
    "t10, t50 and t90 say when 10, 50 and 90&nbsp;% of the transition had happened: of the fall in KL to "
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
PROBE, QUANTITY = "Accuracy", "accuracy"
ACCURACY = f"{PROBE}.{QUANTITY}"
SHOWN = 0.2
"""Attention beyond uniform attention's that any head has where the picture of all heads is shown."""

HEADS = (
    "Each head at each checkpoint: its colour is the relation that it attends to most, and is the fuller the further "
    "its attention there goes beyond that of uniform attention. Dashed: where stages begin. "
)
RIBBONS = "Ribbons: 95&nbsp;% intervals over the probe batch."
TURNING_POINTS = ("reference", "lowest at step", "KL there", "fall", "rise", "p of rise", "slowdown", "ends", "reason")

WHY = (
    "<p>A boundary needs a reference that was approached, a rise that noise on a curve which only falls "
    "would rarely show (p), and a model that came close or paused there (slowdown: 0 where learning "
    "stopped for a while, 1 where it was no slower than around). Other curves with a turning point nearby "
    "corroborate it. A boundary is the minimum of the reference's own curve, with its interval. "
    "KL, fall and rise are in nats.</p>"
)


def _stages(measured: Measured) -> Blocks:
    """Draw every head's attention, KL to the references, loss and accuracy, and write the stages in words."""
    stages, table = measured.stages, measured.table
    blocks: Blocks = []
    if measured.has("AttentionTo.along") and (rows := beyond_uniform(table))["value"].max() >= SHOWN:
        blocks.append(Plot("heads-over-training", {"": plot.heads_over_training(table, stages)}, rows, HEADS))
    if any(measured.has(name) for name in ("KLToReference.kl", "Loss", ACCURACY)):
        blocks += [] if stages is not None else [NO_STAGES]
        blocks.append(Plot("stages", {"": _curves(measured)}, _rows(measured), _caption(measured, stages)))
    if stages is not None:
        blocks += [_in_words(stages), html_table(COLUMNS, stage_rows(stages)), TABLE]
    return blocks


def _in_words(stages: Stages) -> str:
    """Return the remarks on the stages beside the events of each; HTML."""
    if stages.unknown:
        return f"<p><strong>{html.escape(capital(stages.unknown))}.</strong></p>"
    lines = [f"<li>{html.escape(line)}</li>" for line in stages.lines[len(stages) :]]
    return f'<ol class="sentences">{"".join(lines)}</ol>' if lines else ""


def _curves(measured: Measured) -> Figure:
    table, stages = measured.table, measured.stages
    kl, loss, accuracy = (measured.has(name) for name in ("KLToReference.kl", "Loss", ACCURACY))
    heights = [3.5] * kl + [2.2] * loss + [1.8] * accuracy
    figure = Figure(figsize=(7.6, sum(heights)), layout="constrained")
    axes = list(figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0])
    if kl:
        plot.kl_curves(table, stages=stages, ax=axes[0])
    if loss:
        plot.loss_curve(table, stages, ax=axes[kl])
    if accuracy:
        scalar(table, PROBE, QUANTITY, stages, axes[-1])
    for ax in axes[:-1]:
        ax.set_xlabel("")
    return figure


def _rows(measured: Measured) -> pd.DataFrame:
    table, families = measured.table, measured.families()
    of_model = table["probe"].isin(["Loss", PROBE])
    if not families:
        return table[of_model]
    references = families["nested"] or [name for names in families.values() for name in names]
    kl = (table["probe"] == "KLToReference") & table["reference"].isin(references)
    return table[kl | of_model]


def _caption(measured: Measured, stages: Stages | None) -> str:
    families = measured.families()
    caption = ""
    if families:
        caption = NESTED if families["nested"] else OTHERS
    if stages is not None and stages.references:
        caption += SEVERAL if stages.table["left"].any() else ONE
    return caption + RIBBONS


def _evidence(measured: Measured) -> Blocks:
    """Return the table of turning points."""
    if measured.stages is None or measured.stages.turning_points.empty:
        return []
    return [html_table(TURNING_POINTS, _turning_point_rows(measured.stages)), WHY]


def _turning_point_rows(stages: Stages) -> list[list[object]]:
    points = stages.turning_points
    return [
        [
            row["reference"],
            interval(row["step"], row["lo"], row["hi"]),
            *(number(row[name]) for name in ("value", "fall", "rise")),
            f"{row['p_value']:.2g}",
            number(row["slowdown"]),
            "no" if pd.isna(row["ends_stage"]) else f"stage {row['ends_stage']}",
            reason,
        ]
        for row, reason in zip(points.to_dict("records"), turning_points(points, stages.context), strict=True)
    ]


def _has_partial_solutions(measured: Measured) -> bool:
    """Whether the run is known to have partial solutions: at least two references, or nested ones in its table."""
    families = measured.families()
    return bool(families["nested"]) if families else len(measured.references) > 1


STAGES = Section(
    "stages",
    "The stages",
    _stages,
    ("KLToReference", "Loss", ACCURACY),
    reads=("KLToReference", "Loss", "AttentionTo", ACCURACY),
    folded=False,
)
EVIDENCE = Section("evidence", "Why these boundaries", _evidence, ("KLToReference",), applies=_has_partial_solutions)
