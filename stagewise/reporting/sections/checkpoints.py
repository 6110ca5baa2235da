"""The section with a slider over the attention maps of every checkpoint."""

from stagewise.reporting.measured import Measured
from stagewise.reporting.section import Blocks, Section, never_missing
from stagewise.reporting.viewer import MAPS, viewer


def _viewer_section(measured: Measured) -> Blocks:
    """Return the viewer."""
    return [viewer(measured, measured.stages)]


SECTION = Section("checkpoints", "Every checkpoint", _viewer_section, MAPS, applies=never_missing)
