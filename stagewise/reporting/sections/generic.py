"""The sections of probes that have none of their own, a figure a quantity; and of interventions."""

import dataclasses
import functools
import html
from collections.abc import Iterable, Sequence

import pandas as pd

from stagewise import plot
from stagewise.findings import Stages
from stagewise.plot.curves import axes_of, quantity_of
from stagewise.plot.generic import COLOURED, GREYS, PANELS, finite_rows, kind_of, lines_in, long_axis
from stagewise.reporting._figure import Plot, identifier
from stagewise.reporting._html import texts, wording
from stagewise.reporting._measured import Measured
from stagewise.reporting._prose import html_table, in_words
from stagewise.reporting._section import Blocks, Section
from stagewise.table import LOGGED, Quantity, select
from stagewise.words import branch_in_words, capital, delay_in_words, transition


def generic_sections(measured: Measured, elsewhere: Iterable[str]) -> list[Section]:
    """Return a section for each probe of the table of which other sections do not show everything.

    Args:
        measured: of the run.
        elsewhere: probes, as in "Loss", and quantities, as in "AttentionTo.mass", that other sections show.
    """
    skipped = {*elsewhere, "PatternClusters"}  # whose kinds the lineage tells
    pairs = measured.table[["probe", "quantity"]].drop_duplicates()
    others: dict[str, list[str]] = {}
    for probe, quantity in pairs.itertuples(index=False):
        if probe not in skipped and f"{probe}.{quantity}" not in skipped:
            others.setdefault(str(probe), []).append(str(quantity))
    return [
        Section(
            f"probe-{number}-{identifier(in_words(probe)).lower()}",
            in_words(probe),
            functools.partial(_probe_section, probe=probe, quantities=quantities),
            (probe,),
            of_batch=not all(quantity_of(measured.table, probe, name).weights for name in quantities),
        )
        for number, (probe, quantities) in enumerate(others.items(), start=1)
    ]


def _probe_section(measured: Measured, probe: str, quantities: Sequence[str]) -> Blocks:
    """Return a figure for each quantity of a probe; of one that is never finite, a sentence."""
    blocks: Blocks = []
    for number, name in enumerate(quantities, start=1):
        table = measured.table
        if "value" not in (rows := select(table, probe, name)):  # it may have maps, of which two checkpoints are read
            ends = int(rows["step"].min()), int(rows["step"].max())
            table = measured.only([f"{probe}.{name}"], ends, ["map"]).table
        rows, finite = select(table, probe, name), finite_rows(table, probe, name)
        what = quantity_of(table, probe, name)
        if finite.empty:
            blocks.append(f"<p>{html.escape(capital(what.label))} is not finite at any checkpoint.</p>")
            continue
        if probe == LOGGED:  # which way is progress nobody said: it is the way that the curve went
            what = dataclasses.replace(what, progress=None)
        figure = plot.quantity(table, probe, name, measured.stages)
        file = f"{identifier(in_words(probe)).lower()}-{number}-{identifier(name)}"
        look_for = texts()["probes"].get(f"{probe}.{name}", "")
        words = f"{html.escape(caption(finite, what, measured.stages))} {look_for}".strip()
        blocks.append(Plot(file, {"": figure}, rows, words))
    return blocks


def caption(rows: pd.DataFrame, what: Quantity, stages: Stages | None = None) -> str:
    """Return the caption of a quantity's figure: its content, and what to look for.

    >>> rows = pd.DataFrame({"step": [0, 0], "layer": [0, 1], "value": [1.0, 2.0]})
    >>> caption(rows, Quantity("loss of the early exit", "nats", (0, None), "down"))[:79]
    'Loss of the early exit, in nats, at least 0; by layer. Down is progress: look f'
    """
    unit = f", in {what.unit}" if what.unit else ""
    axes = [name for name in axes_of(rows) if name != "layer" or "head" not in rows]
    by = f"; by {' and '.join(filter(None, [', '.join(axes[:-1]), axes[-1]]))}" if axes else ""
    progress = f"{wording('generic', what.progress)} " if what.progress else ""
    return f"{capital(what.label)}{unit}{_bounds(what)}{by}. {progress}{_drawn(rows)}{_shaded(rows, stages)}".strip()


def _bounds(what: Quantity) -> str:
    lo, hi = what.range
    if lo is not None and hi is not None:
        return f", from {lo:g} to {hi:g}"
    if lo is not None:
        return f", at least {lo:g}"
    return "" if hi is None else f", at most {hi:g}"


def _drawn(rows: pd.DataFrame) -> str:
    if (kind := kind_of(rows)) == "images":
        return f"At the last checkpoint, the {PANELS} maps that moved most, if there are more; all are in the table. "
    axis = long_axis(rows)
    number = len(lines_in(rows, axis))
    if kind == "lines":
        more = f" (of these {GREYS}; all are in the table)" if number > COLOURED + GREYS else ""
        lead = f"Coloured: the {COLOURED} of {number} lines that moved most, the others grey{more}. "
        ribbons = "Ribbons: 95 % intervals over the probe batch. " if "lo" in rows and rows["lo"].notna().all() else ""
        return f"{lead if number > COLOURED else ''}{ribbons}"
    how = "Dark cells are high values, at a checkpoint and" if kind == "maps" else "A line is a checkpoint, over"
    drawn = f"Drawn: the {PANELS} of {number} that moved most; all are in the table. " if number > PANELS else ""
    return f"{how} {axis}. {drawn}"


def _shaded(rows: pd.DataFrame, stages: Stages | None) -> str:
    if stages is None or len(stages.table) < 2 or kind_of(rows) in ("profiles", "images"):
        return ""
    return "Shaded: the stages." if kind_of(rows) == "lines" else "Dashed: where stages begin."


def _delays(measured: Measured) -> Blocks:
    """Return a row for each transition under each head that was held, and each change."""
    rows = measured.interventions
    if rows is None or rows.empty:
        return []
    cells = [
        [branch_in_words(row), row["step"], row["control"], transition(row), delay_in_words(*delay)]
        for row, delay in zip(rows.to_dict("records"), rows[["value", "lo", "hi"]].to_numpy(float), strict=True)
    ]
    table = html_table(("change", "from step", "control", "transition", "comes"), cells)
    return [f"<p>{wording('further', 'delays')}</p>{table}"]


INTERVENTIONS: Section = Section("interventions", "What a stage needs", _delays, applies=False)
