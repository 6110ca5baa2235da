"""The report's section on onsets: what began when, the curves, and why the other scores have none."""

import html

import numpy as np
import pandas as pd

from stagewise.detection.scores import curve_of
from stagewise.detection.words import without_onset
from stagewise.plot.onsets import kinds_shown, onset_curves
from stagewise.reporting import captions
from stagewise.reporting.figure import Plot
from stagewise.reporting.prose import html_table, interval, number
from stagewise.reporting.sections.markov import Blocks, Measured


def onsets_section(measured: Measured) -> Blocks:
    """What began when: the scores with an onset and their curves; of the others, why they have none."""
    stages = measured.stages
    if stages is None or stages.from_references:
        return []
    onsets = stages.onsets
    columns = ["what began", "t10", "t50 [95 %]", "t90", "before", "after", "last", "p"]
    blocks: Blocks = [html_table(columns, onset_rows(onsets))] if onsets["onset"].any() else []
    blocks += [f"<p>{html.escape(without_onset(onsets, stages.criteria))}</p>", captions.ONSETS_TESTED]
    curves = [curve_of(measured.table, row) for _, rows in kinds_shown(onsets) for row in rows.to_dict("records")]
    return [*blocks, Plot("onsets", {"": onset_curves(measured.table, stages)}, pd.concat(curves), captions.ONSETS)]


def onset_rows(onsets: pd.DataFrame) -> list[list[object]]:
    """Return the cells of the table of onsets."""
    return [
        [
            row["words"],
            number(row["t10"]),
            interval(round(row["t50"]), row["t50_lo"], row["t50_hi"]).replace("inf]", "...]"),
            number(row["t90"]) if np.isfinite(row["t90_hi"]) else "not over",
            *(number(row[name]) for name in ("before", "after", "last")),
            f"{row['p_value']:.2g}",
        ]
        for row in onsets[onsets["onset"]].to_dict("records")
    ]
