"""The sections of the report from top to bottom, those on one idea in a file; other probes get theirs by `generic`."""

from stagewise.entry_points import added
from stagewise.reporting._section import Section
from stagewise.reporting.sections import generic, heads, maps, record, stages, text

SECTIONS: tuple[Section, ...] = (
    record.AUDIT,
    text.SECTION,
    stages.STAGES,
    maps.MAPS,
    maps.CHECKPOINTS,
    stages.ONSETS,
    stages.EVIDENCE,
    heads.HEADS,
    heads.LINEAGE,
    maps.CONTEXT,
    maps.TRAINED_CONTEXT,
    heads.ABLATION,
    generic.INTERVENTIONS,
    heads.CLUSTERS,
)
"""Sections on the table."""

LAST: tuple[Section, ...] = (record.TRAINING, record.SETTINGS)
"""Sections at the end, after those of all other probes."""


def installed() -> tuple[Section, ...]:
    """Return the sections that installed packages add, behind those on the table."""
    return tuple(entry.load() for entry in added("sections").values())
