"""The sections of the report, one a file, from top to bottom; probes without one get theirs from `generic`."""

from stagewise.reporting.section import Section
from stagewise.reporting.sections import (
    ablation,
    audit,
    checkpoints,
    clusters,
    context,
    copying,
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

SECTIONS: tuple[Section, ...] = tuple(
    module.SECTION
    for module in (
        *(audit, text, stages, onsets, emergence, evidence, heads, lineage, maps, checkpoints, last_checkpoint),
        *(
            context,
            trained_context,
            ablation,
            interventions,
            clusters,
            values,
            entropy,
            copying,
            profiles,
            weights,
            head_scores,
        ),
    )
)
"""What is shown of the table."""

LAST: tuple[Section, ...] = (training.SECTION, settings.SECTION)
"""What stands at the end, after the sections of all other probes."""
