"""Sections of the report for checkpoints that were trained elsewhere: the audit, copying, scores of each head."""

import pandas as pd
from matplotlib.figure import Figure

from stagewise.detection.stages import Stages
from stagewise.plot import profiles
from stagewise.plot.colours import OKABE_ITO, head_colours, marker
from stagewise.plot.step_axis import curve, label_ends, set_step_axis, shade_stages
from stagewise.reporting import captions
from stagewise.reporting.figure import Plot
from stagewise.reporting.prose import html_table
from stagewise.reporting.sections.markov import PANELS, Blocks, Measured
from stagewise.table import Head, head_label, select

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

WEIGHT_SCORES = {
    ("OVCopying", "copying"): ("copying by weights", captions.OV_COPYING),
    ("QKOffset", "share"): ("previous position by weights", captions.QK_OFFSET),
}

PROFILES = 6
"""Heads whose profile over offsets is drawn."""

PAIRS = 8
"""Pairs of heads whose composition is drawn."""


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


def profiles_section(measured: Measured) -> Blocks:
    """The loss at every position, and how far back the heads that changed most look, at a few checkpoints."""
    blocks: Blocks = []
    if measured.has("LossByPosition"):
        rows = select(measured.table, "LossByPosition", "cross_entropy")
        axes = profiles.loss_by_position(measured.table)
        blocks.append(Plot("loss-by-position", {"": axes}, rows, captions.LOSS_BY_POSITION))
    if measured.has("OffsetProfile"):
        rows = select(measured.table, "OffsetProfile", "mass")
        figure = profiles.offset_profiles(measured.table, _moved(rows, PROFILES))
        blocks.append(Plot("offset-profile", {"": figure}, rows, captions.OFFSETS))
    return blocks


def weights_section(measured: Measured) -> Blocks:
    """What the weights of each head do, by themselves: copy, look back, read earlier heads."""
    blocks: Blocks = []
    for (probe, quantity), (label, look) in WEIGHT_SCORES.items():
        if measured.has(probe):
            rows = select(measured.table, probe, quantity)
            blocks.append(Plot(f"weights-{quantity}", {"": _by_head(rows, label, measured.stages)}, rows, look))
    if measured.has("Composition"):
        rows = select(measured.table, "Composition", "score")
        figure = _compositions(rows, measured.stages)
        blocks.append(Plot("composition", {"": figure}, rows, captions.COMPOSITION))
    return blocks


def _compositions(rows: pd.DataFrame, stages: Stages | None) -> Figure:
    figure = Figure(figsize=(7.6, 2.8), layout="constrained")
    ax = figure.subplots()
    set_step_axis(ax, rows["step"])
    shade_stages(ax, stages)
    pairs = ["layer", "head", "source", "composition"]
    moved = rows.groupby(pairs)["value"].agg(lambda values: values.max() - values.min()).nlargest(PAIRS)
    curves = dict(list(rows.groupby(pairs)))
    for i, (layer, head, source, kind) in enumerate(moved.index):
        own = curves[layer, head, source, kind]
        curve(ax, own, f"{head_label(layer, head)} of {source}, {kind}", OKABE_ITO[i % len(OKABE_ITO)], marker(i))
    ax.set_ylabel("composition")
    label_ends(ax)
    return figure


def _moved(rows: pd.DataFrame, most: int) -> list[Head]:
    """Return the heads with a value that changed most over training, in order."""
    others = [name for name in ("layer", "head", "offset") if name in rows]
    change = rows.groupby(others)["value"].agg(lambda values: values.max() - values.min())
    return sorted(
        (int(layer), int(head)) for layer, head in change.groupby(["layer", "head"]).max().nlargest(most).index
    )


def _by_head(rows: pd.DataFrame, label: str, stages: Stages | None) -> Figure:
    figure = Figure(figsize=(7.6, 2.8), layout="constrained")
    ax = figure.subplots()
    set_step_axis(ax, rows["step"])
    shade_stages(ax, stages)
    for i, head in enumerate(_moved(rows, PANELS)):
        own = rows[(rows["layer"] == head[0]) & (rows["head"] == head[1])]
        curve(ax, own, head_label(*head), head_colours(rows)[head], marker(i))
    ax.set_ylabel(label)
    label_ends(ax)
    return figure
