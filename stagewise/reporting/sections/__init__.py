"""The sections of the report from top to bottom, those on one idea in a file; other probes get theirs by `generic`."""

from stagewise.entry_points import added
from stagewise.reporting._section import Section
from stagewise.reporting.sections import behaviour, generic, heads, maps, record, stages

SECTIONS: tuple[Section, ...] = (
    record.AUDIT,
    behaviour.BEHAVIOUR,
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
)
"""Sections on the table."""

LAST: tuple[Section, ...] = (record.TRAINING, record.SETTINGS)
"""Sections at the end, after those of all other probes."""


def with_installed() -> list[Section]:
    """Return the sections on the table with those of installed packages: above them where they are not folded."""
    further = [entry.load() for entry in added("sections").values()]
    return [*(one for one in further if not one.folded), *SECTIONS, *(one for one in further if one.folded)]
