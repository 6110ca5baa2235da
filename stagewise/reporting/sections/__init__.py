"""The sections of the report, one a file, from top to bottom; probes without one get theirs from `generic`."""

from stagewise.reporting.section import Section
from stagewise.reporting.sections import (
    ablation,
    audit,
    checkpoints,
    clusters,
    compared,
    context,
    copying,
    degeneracy,
    emergence,
    entropy,
    evidence,
    head_scores,
    heads,
    interventions,
    last_checkpoint,
    lineage,
    maps,
    onsets,
    profiles,
    settings,
    stages,
    text,
    trained_context,
    training,
    values,
    weights,
)

SECTIONS: tuple[Section, ...] = (
    audit.SECTION,
    text.SECTION,
    stages.SECTION,
    onsets.SECTION,
    emergence.SECTION,
    evidence.SECTION,
    heads.SECTION,
    lineage.SECTION,
    maps.SECTION,
    checkpoints.SECTION,
    last_checkpoint.SECTION,
    context.SECTION,
    trained_context.SECTION,
    ablation.SECTION,
    interventions.SECTION,
    clusters.SECTION,
    values.SECTION,
    entropy.SECTION,
    copying.SECTION,
    profiles.SECTION,
    weights.SECTION,
    head_scores.SECTION,
    compared.SECTION,
    degeneracy.SECTION,
)
"""What is shown of the table."""

LAST: tuple[Section, ...] = (training.SECTION, settings.SECTION)
"""What stands at the end, after the sections of all other probes."""
