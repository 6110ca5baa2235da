"""The sections of the report from top to bottom, those on one idea in a file; other probes get theirs by `generic`."""

from stagewise.reporting._section import Section
from stagewise.reporting.sections import ablation, context, further, heads, kinds, maps, onsets, record, stages, text

SECTIONS: tuple[Section, ...] = (
    record.AUDIT,
    text.SECTION,
    stages.STAGES,
    maps.MAPS,
    maps.LAST_CHECKPOINT,
    maps.CHECKPOINTS,
    onsets.SECTION,
    stages.EVIDENCE,
    heads.HEADS,
    kinds.LINEAGE,
    context.CONTEXT,
    context.TRAINED_CONTEXT,
    ablation.SECTION,
    further.INTERVENTIONS,
    kinds.CLUSTERS,
    heads.VALUES,
    heads.ENTROPY,
    context.COPYING,
    context.PROFILES,
    heads.WEIGHTS,
    heads.SCORES,
    further.COMPARED,
    further.DEGENERACY,
)
"""Sections on the table."""

LAST: tuple[Section, ...] = (record.TRAINING, record.SETTINGS)
"""Sections at the end, after those of all other probes."""
