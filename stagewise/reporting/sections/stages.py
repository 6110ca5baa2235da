"""The sections on stages and onsets: what happened when, in words, as tables and as curves, and why, or why not."""

import dataclasses
import html

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from stagewise import plot
from stagewise.findings import Stages
from stagewise.findings.scores import UNIT, curves_of
from stagewise.plot.axes import ALONE, curve, panels
from stagewise.plot.curves import BLACK, prepared, quantity_of, set_value_axis
from stagewise.plot.onsets import kinds_shown, onset_curves
from stagewise.plot.strips import beyond_uniform
from stagewise.reporting._figure import Plot
from stagewise.reporting._html import wording
from stagewise.reporting._measured import Measured
from stagewise.reporting._prose import html_table, number, stage_rows, time
from stagewise.reporting._section import Blocks, Section
from stagewise.table import select
from stagewise.words import capital, interval, without_onset
from stagewise.words import onsets as in_words
from stagewise.words.stages import stages as stage_lines
from stagewise.words.stages import too_few, turning_points

COLUMNS = ("stage", "from step", "to step", "t10", "t50", "t90", "what happened")

PROBE, QUANTITY = "Accuracy", "accuracy"
ACCURACY = f"{PROBE}.{QUANTITY}"
SHOWS = "KLToReference", "Loss", ACCURACY
SHOWN = 0.2
"""Attention beyond uniform attention's that any head has where the picture of all heads is shown."""

TURNING_POINTS = ("reference", "lowest at step", "KL there", "fall", "rise", "p of rise", "slowdown", "ends", "reason")


def _stages(measured: Measured) -> Blocks:
    """Draw every head's attention, KL to the references, loss and accuracy, and write the stages in words."""
    stages, table = measured.stages, measured.table
    blocks: Blocks = []
    if measured.has("AttentionTo.along") and (rows := beyond_uniform(table))["value"].max() >= SHOWN:
        figure = plot.heads_over_training(table, stages)
        blocks.append(Plot("heads-over-training", {"": figure}, rows, wording("stages", "heads")))
    if any(measured.has(name) for name in ("KLToReference.kl", "Loss", ACCURACY)):
        blocks += [wording("stages", "no-stages")] if stages is None else []
        blocks.append(Plot("stages", {"": _curves(measured)}, _rows(measured), _caption(measured, stages)))
    if stages is not None:
        blocks += [_in_words(stages), html_table(COLUMNS, stage_rows(stages)), wording("stages", "table")]
    return blocks


def _in_words(stages: Stages) -> str:
    """Return the remarks on the stages beside the events of each; HTML."""
    if stages.unknown:
        return f"<p><strong>{html.escape(capital(too_few(*stages.unknown)))}.</strong></p>"
    lines = [f"<li>{html.escape(line)}</li>" for line in stage_lines(stages)[len(stages) :]]
    return f'<ol class="sentences">{"".join(lines)}</ol>' if lines else ""


def _curves(measured: Measured) -> Figure:
    table, stages = measured.table, measured.stages
    kl, loss, accuracy = (measured.has(name) for name in ("KLToReference.kl", "Loss", ACCURACY))
    heights = [3.5] * kl + [2.2] * loss + [1.8] * accuracy
    figure, axes = panels(len(heights), sum(heights), height_ratios=heights)
    if kl:
        plot.kl_curves(table, stages=stages, ax=axes[0])
    if loss:
        plot.loss_curve(table, stages, ax=axes[kl])
    if accuracy:
        rows = select(table, PROBE, QUANTITY)
        curve(prepared(axes[-1], rows, stages, small=True), rows, ALONE, BLACK, "o")
        set_value_axis(axes[-1], quantity_of(table, PROBE, QUANTITY), width=20)
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
    families, names = measured.families(), []
    if families:
        names.append("nested" if families["nested"] else "others")
    if stages is not None and stages.references:
        names.append("several" if stages.table["left"].any() else "one")
    return wording("stages", *names, "ribbons")


def _evidence(measured: Measured) -> Blocks:
    """Return the table of turning points."""
    if (stages := measured.stages) is None or stages.turning_points.empty:
        return []
    points = stages.turning_points
    rows = [
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
    return [html_table(TURNING_POINTS, rows), wording("stages", "why")]


def _has_partial_solutions(measured: Measured) -> bool:
    """Whether the run is known to have partial solutions: at least two references, or nested ones in its table."""
    families = measured.families()
    return bool(families["nested"]) if families else len(measured.references) > 1


STAGES = Section("stages", "The stages", _stages, SHOWS, reads=(*SHOWS, "AttentionTo"), folded=False)
EVIDENCE = Section("evidence", "Why these boundaries", _evidence, ("KLToReference",), applies=_has_partial_solutions)


def _began(measured: Measured) -> Blocks:
    """Onsets: the scores with one and their curves; for the others, why they have none."""
    stages = measured.stages
    if stages is None or stages.onsets.empty:
        return []
    onsets = stages.onsets
    columns = ["what began", "t10", "t50 [95 %]", "t90", "before", "after", "last", "p"]
    blocks: Blocks = [html_table(columns, _onset_rows(stages))] if onsets["onset"].any() else []
    criteria = dataclasses.asdict(stages.criteria)
    tested = wording("onsets", "tested", **criteria, part=UNIT * stages.criteria.smallest)
    blocks += [f"<p>{html.escape(without_onset(onsets, stages.causes))}</p>", tested]
    examined = pd.concat([rows for _, rows in kinds_shown(onsets)])
    table = measured.only(set(examined["probe"] + "." + examined["quantity"])).table
    rows = pd.concat(curves_of(table, examined))
    ribbons = ["ribbons"] if "lo" in rows and rows["lo"].notna().any() else []
    return [*blocks, Plot("onsets", {"": onset_curves(table, stages)}, rows, wording("onsets", "onsets", *ribbons))]


def _onset_rows(stages: Stages) -> list[list[object]]:
    """Return the cells of the table of onsets."""
    onsets = stages.onsets[stages.onsets["onset"]]
    return [
        [
            text,
            time(row["t10"]),
            f"{time(row['t50'])} [{time(row['t50_lo'])}, {time(row['t50_hi'])}]".replace("inf]", "...]"),
            f"{time(row['t90'])}{'' if np.isfinite(row['t90_hi']) else ' or later'}",
            *(number(row[name]) for name in ("before", "after", "last")),
            f"{row['p_value']:.2g}",
        ]
        for row, text in zip(onsets.to_dict("records"), in_words(onsets, stages.context), strict=True)
    ]


ONSETS = Section("onsets", "What began when", _began, applies=False)
