"""The report's section on onsets: what began when, the curves, and why the other scores have none."""

import dataclasses
import html

import numpy as np
import pandas as pd

from stagewise.findings._scores import UNIT, curves_of
from stagewise.findings.stages import Stages
from stagewise.plot.onsets import kinds_shown, onset_curves
from stagewise.reporting._figure import Plot
from stagewise.reporting._html import wording
from stagewise.reporting._measured import Measured
from stagewise.reporting._prose import html_table, number, time
from stagewise.reporting._section import Blocks, Section, never_missing
from stagewise.words._onsets import onsets as in_words
from stagewise.words._onsets import without_onset


def _onsets_section(measured: Measured) -> Blocks:
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


SECTION = Section("onsets", "What began when", _onsets_section, applies=never_missing)
