"""The section that says why each reference's turning point is a boundary of stages or not."""

from stagewise.reporting.measured import Measured
from stagewise.reporting.prose import html_table, turning_point_rows
from stagewise.reporting.section import Blocks, Section

COLUMNS = ("reference", "lowest at step", "KL there", "fall", "rise", "p of rise", "slowdown", "ends", "reason")

EVIDENCE = (
    "<p>A boundary needs a reference that was approached, a rise that noise on a curve which only falls "
    "would rarely show (p), and a model that came close or paused there (slowdown: 0 where learning "
    "stopped for a while, 1 where it was no slower than around). Other curves with a turning point nearby "
    "corroborate it. A boundary is the minimum of the reference's own curve, with its interval. "
    "KL, fall and rise are in nats.</p>"
)


def _evidence_section(measured: Measured) -> Blocks:
    """Return the table of turning points."""
    if measured.stages is None or measured.stages.turning_points.empty:
        return []
    return [html_table(COLUMNS, turning_point_rows(measured.stages)), EVIDENCE]


def _has_partial_solutions(measured: Measured) -> bool:
    """Whether the run is known to have partial solutions: at least two references, or nested ones in its table."""
    families = measured.families()
    return bool(families["nested"]) if families else len(measured.references) > 1


SECTION = Section(
    "evidence", "Why these boundaries", _evidence_section, ("KLToReference",), applies=_has_partial_solutions
)
