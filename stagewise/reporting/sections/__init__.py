"""The sections of the report from top to bottom, those on one idea in a file; other probes get theirs by `generic`."""

from stagewise.reporting._section import Section
from stagewise.reporting.sections import (
    ablation,
    context,
    further,
    head_scores,
    heads,
    kinds,
    maps,
    onsets,
    record,
    sequence,
    stages,
    text,
)

SECTIONS: tuple[Section, ...] = (
    record.AUDIT,
    text.SECTION,
    stages.STAGES,
    maps.MAPS,
    maps.LAST_CHECKPOINT,
    maps.CHECKPOINTS,
    onsets.SECTION,
    stages.EVIDENCE,
    heads.SECTION,
    kinds.LINEAGE,
    context.CONTEXT,
    context.TRAINED_CONTEXT,
    ablation.SECTION,
    further.INTERVENTIONS,
    kinds.CLUSTERS,
    head_scores.VALUES,
    head_scores.ENTROPY,
    sequence.COPYING,
    sequence.PROFILES,
    head_scores.WEIGHTS,
    head_scores.HEAD_SCORES,
    further.COMPARED,
    further.DEGENERACY,
)
"""Sections on the table."""

LAST: tuple[Section, ...] = (record.TRAINING, record.SETTINGS)
"""Sections at the end, after those of all other probes."""
