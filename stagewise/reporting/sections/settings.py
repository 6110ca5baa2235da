"""The section of settings: all of the run's record."""

from stagewise.reporting.measured import RECORDED, Measured
from stagewise.reporting.prose import html_table, settings_rows
from stagewise.reporting.section import Blocks, Section


def _settings_section(measured: Measured) -> Blocks:
    """Return the name of the run, its recipe, seeds and versions, and what decided its measurement."""
    record = {name: value for name, value in measured.run.items() if name != RECORDED}
    decided = settings_rows(measured.provenance, "measured")
    rows = [["run", measured.table["run"].iloc[0]], *settings_rows(record), *decided]
    return [html_table(["setting", "value"], rows, "settings")]


SECTION = Section("settings", "Settings, versions, seeds", _settings_section, of_batch=False)
