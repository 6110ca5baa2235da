"""Sections of the report for checkpoints that were trained elsewhere: the audit, copying, scores of each head."""

import pandas as pd
from matplotlib.figure import Figure

from stagewise.figure import Plot
from stagewise.palette import head_colours, heads_in, marker
from stagewise.prose import html_table
from stagewise.sections import PANELS, Blocks, Measured
from stagewise.stages import Stages
from stagewise.step_axis import curve, label_ends, set_step_axis, shade_stages
from stagewise.table import head_label, select

SCALARS = {
    ("Copying", "accuracy"): "copied tokens that are most likely",
    ("Copying", "gain"): "gain of copying, nats",
    ("InContextLearning", "score"): "in-context learning score, nats",
}
HEAD_SCORES = {
    ("EffectiveSupport", "keys"): "effective number of keys",
    ("AttentionDistance", "distance"): "mean distance, tokens",
    ("ParticipationRatio", "dimensions"): "effective dimension of the output",
}


def audit_section(measured: Measured) -> Blocks:
    """The faults that the audit found, if it found any."""
    audit = measured.run.get("audit") or {}
    findings = audit.get("findings", [])
    if not findings:
        return []
    rows = [[found["kind"], ", ".join(map(str, found["steps"])), found["message"]] for found in findings]
    return [
        f"<p><strong>The audit of the checkpoints found {len(rows)} "
        f"{'fault' if len(rows) == 1 else 'faults'}.</strong> What follows was measured on them as they are.</p>",
        html_table(["kind", "steps", "what was found"], rows),
    ]


def copying_section(measured: Measured) -> Blocks:
    """How well repeated tokens are predicted, and later tokens against early ones."""
    there = {key: label for key, label in SCALARS.items() if measured.has(key[0])}
    if not there:
        return []
    figure = Figure(figsize=(7.6, 2.1 * len(there)), layout="constrained")
    axes = figure.subplots(len(there), 1, squeeze=False)[:, 0]
    shown = []
    for ax, ((probe, quantity), label) in zip(axes, there.items(), strict=True):
        rows = select(measured.table, probe, quantity)
        set_step_axis(ax, rows["step"])
        shade_stages(ax, measured.stages, numbers_only=True)
        curve(ax, rows, "_" + label, "#222222", "o")
        ax.set_ylabel(label.replace(", ", ",\n") if len(label) < 30 else label.replace(" that ", "\nthat "))
        ax.set_xlabel("")
        shown.append(rows)
    axes[-1].set_xlabel("optimiser step")
    caption = (
        "Of random tokens that come twice, the second can be predicted by copying alone. Look for a sudden rise of "
        "the accuracy, and for a score that falls below zero: late tokens are then better predicted than early ones. "
        "Ribbons: 95 % intervals over the probe batch."
    )
    return [Plot("copying", {"": figure}, pd.concat(shown), caption)]


def head_scores_section(measured: Measured) -> Blocks:
    """Effective support, distance and dimension of the heads that changed most."""
    blocks: Blocks = []
    for (probe, quantity), label in HEAD_SCORES.items():
        if measured.has(probe):
            rows = select(measured.table, probe, quantity)
            caption = f"{label.capitalize()} of each head over training; drawn are those in which it changed most."
            blocks.append(Plot(f"heads-{quantity}", {"": _by_head(rows, label, measured.stages)}, rows, caption))
    return blocks


def _by_head(rows: pd.DataFrame, label: str, stages: Stages | None) -> Figure:
    figure = Figure(figsize=(7.6, 2.8), layout="constrained")
    ax = figure.subplots()
    set_step_axis(ax, rows["step"])
    shade_stages(ax, stages)
    moved = rows.groupby(["layer", "head"])["value"].agg(lambda values: values.max() - values.min())
    drawn = set(moved.nlargest(PANELS).index)
    for i, head in enumerate(head for head in heads_in(rows) if head in drawn):
        own = rows[(rows["layer"] == head[0]) & (rows["head"] == head[1])]
        curve(ax, own, head_label(*head), head_colours(rows)[head], marker(i))
    ax.set_ylabel(label)
    label_ends(ax)
    return figure
