"""The sections of the report: what a run folder holds in, paragraphs and figures out, or nothing."""

import html
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from stagewise import plot
from stagewise.detection.stages import Stages
from stagewise.plot.colours import head_colours
from stagewise.reporting import captions
from stagewise.reporting.figure import Plot
from stagewise.reporting.prose import html_table, settings_rows, stage_rows, stages_in_words, turning_point_rows
from stagewise.reporting.viewer import circuitsvis_view, viewer
from stagewise.table import Head, families, head_label, heads_in, select

PANELS = 12
"""Heads, or maps, that are drawn one by one; the rest is in the table."""

METRICS_DRAWN = 1500
"""Training steps that the training curve goes through, spaced evenly on its axis."""

Blocks = list[str | Plot]


class Measured(NamedTuple):
    """What a run folder holds: run.json, metrics, the table, its stages, where relations lie, the second table."""

    run: Mapping[str, Any]
    metrics: pd.DataFrame | None
    table: pd.DataFrame
    stages: Stages | None
    relations: Mapping[str, np.ndarray]
    first_query: int
    repeated: pd.DataFrame | None = None

    def has(self, probe: str) -> bool:
        """Whether the table has rows of a probe."""
        return bool((self.table["probe"] == probe).any())


def stages_section(measured: Measured) -> Blocks:
    """The stages in words, as a table, and the curves they were found in."""
    stages = measured.stages
    blocks: Blocks = []
    if stages is not None:
        columns = ["stage", "from step", "to step", "t10", "t50", "t90", "what happened"]
        blocks += [stages_in_words(stages), html_table(columns, stage_rows(stages))]
        blocks.append(captions.STAGE_TABLE if stages.from_references else captions.ONSET_STAGES)
    if measured.has("KLToReference") or measured.has("Loss"):
        blocks += [] if stages is not None else [captions.NO_STAGES]
        blocks.append(_lead(measured))
    return blocks


def _lead(measured: Measured) -> Plot:
    table, stages = measured.table, measured.stages
    kl, loss = measured.has("KLToReference"), measured.has("Loss")
    figure = Figure(figsize=(7.6, 3.5 * kl + 2.2 * loss), layout="constrained")
    axes = figure.subplots(kl + loss, 1, squeeze=False, height_ratios=[3.4] * kl + [2] * loss)[:, 0]
    if kl:
        plot.kl_curves(table, stages=stages, ax=axes[0])
    if loss:
        plot.loss_curve(table, stages, ax=axes[-1])
        axes[0].set_xlabel("" if kl else axes[0].get_xlabel())
    of = families(select(table, "KLToReference", "kl")) if kl else {}
    nested = of.get("nested", [])
    caption = "" if not kl else captions.REFERENCES if nested else captions.OTHER_REFERENCES
    if stages is not None and stages.from_references:
        caption += captions.SEVERAL_STAGES if len(stages.table) > 1 else captions.ONE_STAGE
    caption += captions.RIBBONS
    shown = nested or [name for names in of.values() for name in names]
    rows = table[table["reference"].isin(shown) | (table["probe"] == "Loss")] if kl else select(table, "Loss")
    return Plot("stages", {"": figure}, rows, caption)


def evidence_section(measured: Measured) -> Blocks:
    """Why each reference's turning point is a boundary of stages or not."""
    if measured.stages is None or measured.stages.turning_points.empty:
        return []
    columns = [
        "reference",
        "lowest at step",
        "KL there",
        "fall",
        "rise",
        "p of rise",
        "slowdown",
        "ends",
        "reason",
    ]
    return [
        html_table(columns, turning_point_rows(measured.stages)),
        captions.EVIDENCE,
    ]


def heads_section(measured: Measured) -> Blocks:
    """Each head's mass on each relation, the specialisation indices, and the heads' changes."""
    table, stages = measured.table, measured.stages
    blocks: Blocks = []
    if measured.has("AttentionTo"):
        rows = select(table, "AttentionTo", "mass")
        panels = {head_label(*head): plot.head_masses(table, *head, stages) for head in _chosen(rows)}
        caption = captions.HEAD_MASSES
        blocks.append(Plot("head-masses", panels, rows, caption + _left_out(rows, "mass moved")))
    if measured.has("HeadSpecialisation"):
        rows = select(table, "HeadSpecialisation")
        rows = rows[rows["quantity"].isin(("competition", "coverage"))]
        caption = captions.SPECIALISATION
        blocks.append(Plot("specialisation", {"": plot.specialisation(table, stages)}, rows, caption))
    if stages is not None and len(stages.events):
        changes = [
            [
                head_label(row["layer"], row["head"]),
                row["before"],
                row["after"],
                f"{row['last_step_before']} to {row['first_step_after']}",
            ]
            for row in stages.events.to_dict("records")
        ]
        blocks += [
            captions.EVENTS,
            html_table(["head", "from", "to", "between steps"], changes),
        ]
    return blocks


def maps_section(measured: Measured) -> Blocks:
    """Combined attention maps at the start, at the boundaries of stages and at the end."""
    if not measured.has("MeanPattern"):
        return []
    rows = select(measured.table, "MeanPattern", "attention")
    layers = sorted({layer for layer, _ in heads_in(rows)})
    everything = [(layer, step) for layer in layers for step in _map_steps(rows, measured.stages)]
    wanted = everything[:PANELS]
    relations = {name: mask for name, mask in measured.relations.items() if mask.shape == _map_size(rows)}
    first_query = measured.first_query if relations else 0
    panels, shown = {}, []
    for layer, step in wanted:
        name = f"step {step}" if len(layers) == 1 else f"layer {layer} step {step}"
        panels[name] = plot.attention_map(rows, step, layer, relations, first_query)
        shown.append(rows[(rows["step"] == step) & (rows["layer"] == layer)])
    caption = captions.MAPS + (captions.OUTLINES if relations else "") + _swatches(rows)
    if len(wanted) < len(everything):
        caption += f" Drawn: {len(wanted)} of {len(everything)} maps; the viewer below has them all."
    return [Plot("attention-maps", panels, pd.concat(shown), caption)]


def _map_steps(rows: pd.DataFrame, stages: Stages | None) -> list[int]:
    there = np.array(sorted(rows["step"].unique()))
    boundaries = [] if stages is None else stages.table["start"].tolist()[1:]
    if not boundaries:
        boundaries = [there[round(part * (len(there) - 1))] for part in (0.25, 0.5)]
    wanted = [there[0], *boundaries, there[-1]]
    return list(dict.fromkeys(int(there[np.abs(there - step).argmin()]) for step in wanted))


def _map_size(rows: pd.DataFrame) -> tuple[int, int]:
    return rows["query"].nunique(), rows["key"].nunique()


def viewer_section(measured: Measured) -> Blocks:
    """The slider over all checkpoints."""
    return [viewer(measured.table, measured.stages)] if measured.has("MeanPattern") else []


def circuitsvis_section(measured: Measured) -> Blocks:
    """The last checkpoint in circuitsvis."""
    if not measured.has("MeanPattern"):
        return []
    place, script = circuitsvis_view(measured.table)
    return [captions.CIRCUITSVIS, place, script]


def context_section(measured: Measured) -> Blocks:
    """How much context the model uses: cut itself, and against models trained on short windows."""
    table, stages = measured.table, measured.stages
    blocks: Blocks = []
    if measured.has("RestrictedContextKL"):
        rows = select(table, "RestrictedContextKL", "kl")
        caption = captions.RESTRICTED
        blocks.append(Plot("restricted-context", {"": plot.restricted_context(table, stages)}, rows, caption))
    trained = families(select(table, "KLToReference", "kl"))["trained"] if measured.has("KLToReference") else []
    if trained:
        rows = select(table, "KLToReference", "kl")
        rows = rows[rows["reference"].isin(trained)]
        caption = captions.TRAINED
        axes = plot.kl_curves(table, trained, stages)
        blocks.append(Plot("trained-restricted", {"": axes}, rows, caption))
    return blocks


def ablation_section(measured: Measured) -> Blocks:
    """What each head is needed for, with the matched control."""
    if not measured.has("HeadAblation"):
        return []
    table = measured.table
    blocks: Blocks = []
    for kind in select(table, "HeadAblation", "kl")["kind"].unique():
        rows = select(table, "HeadAblation", "kl", kind=kind)
        caption = captions.ABLATION.format(kind=html.escape(str(kind)))
        figure = plot.ablation_with_control(table, kind, stages=measured.stages)
        blocks.append(Plot(f"ablation-{kind}", {"": figure}, rows, caption))
    return blocks


def clusters_section(measured: Measured) -> Blocks:
    """The kinds of attention that heads went through."""
    if not measured.has("PatternClusters"):
        return []
    table = measured.table
    rows = select(table, "PatternClusters")
    rows = rows[rows["quantity"].isin(("cluster", "centroid", "silhouette"))]
    silhouettes = rows[rows["quantity"] == "silhouette"]
    quality = f" The best mean silhouette is {silhouettes['value'].max():.2f}." if len(silhouettes) else ""
    caption = captions.CLUSTERS + quality
    panels = {"heads": plot.clusters(table, measured.stages), "profiles": plot.centroids(table)}
    return [Plot("clusters", panels, rows, caption)]


def values_section(measured: Measured) -> Blocks:
    """What each head writes, against the task's features."""
    if not measured.has("ValueAlignment"):
        return []
    table = measured.table
    blocks: Blocks = []
    for quantity, look in captions.VALUES.items():
        rows = select(table, "ValueAlignment", quantity)
        panels = {
            head_label(*head): plot.value_alignment(table, *head, quantity, measured.stages) for head in _chosen(rows)
        }
        caption = f"{quantity.capitalize()} of each head's value map and the task's features: {look}. "
        blocks.append(Plot(f"value-{quantity}", panels, rows, caption + _left_out(rows, "value moved")))
    return blocks


def entropy_section(measured: Measured) -> Blocks:
    """How widely each head attends."""
    if not measured.has("AttentionEntropy"):
        return []
    rows = select(measured.table, "AttentionEntropy", "entropy")
    caption = captions.ENTROPY
    axes = plot.entropy(measured.table, _chosen(rows), measured.stages)
    return [Plot("entropy", {"": axes}, rows, caption + _left_out(rows, "entropy moved"))]


def training_section(measured: Measured) -> Blocks:
    """The loss of the training batches."""
    metrics = measured.metrics
    if metrics is None or metrics.empty:
        return []
    places = np.geomspace(1, len(metrics), min(METRICS_DRAWN, len(metrics))).round().astype(int) - 1
    drawn = metrics.iloc[np.unique(places)]
    note = "" if len(drawn) == len(metrics) else f" {len(drawn)} of {len(metrics)} steps are drawn."
    caption = captions.TRAINING + note
    return [Plot("training-loss", {"": plot.training_loss(drawn, measured.stages)}, drawn, caption)]


def settings_section(measured: Measured) -> Blocks:
    """All of run.json: recipe, seeds, versions."""
    return [html_table(["setting", "value"], settings_rows(measured.run), "settings")]


def _chosen(rows: pd.DataFrame) -> list[Head]:
    """Return the heads to draw: those whose values moved most over training, in order."""
    others = [name for name in ("layer", "head", "relation", "feature") if name in rows]
    moved = rows.groupby(others)["value"].agg(np.ptp).groupby(["layer", "head"]).max()
    return sorted((int(layer), int(head)) for layer, head in moved.nlargest(PANELS).index)


def _left_out(rows: pd.DataFrame, measure: str) -> str:
    there = len(heads_in(rows))
    return f"Drawn: the {PANELS} of {there} heads whose {measure} most." if there > PANELS else ""


def _swatches(rows: pd.DataFrame) -> str:
    return " ".join(
        f'<span class="swatch" style="border-color:{colour}">{head_label(*head)}</span>'
        for head, colour in list(head_colours(rows).items())[:PANELS]
    )
