"""The findings of a golden table as plain data."""

from pathlib import Path
from typing import Any

import pandas as pd

from stagewise.findings._frames import plain
from stagewise.findings._kinds import has_patterns
from stagewise.findings._roles import head_roles
from stagewise.findings.delays import compare_stages
from stagewise.findings.lineage import find_lineage
from stagewise.findings.replicates import Replicates, replicates_of
from stagewise.findings.stages import Stages, find_stages
from stagewise.plain_text import plain_names
from stagewise.replay._delays import Transition, delays, transitions
from stagewise.table import ARRAYS, conformed, in_order

DATA = Path(__file__).parent / "data"
NAMES = sorted(path.stem for path in DATA.glob("*.parquet"))
"""The golden tables."""


def read_golden(name: str) -> pd.DataFrame:
    """Return a golden table."""
    rows = pd.read_parquet(DATA / f"{name}.parquet")
    table = plain_names(conformed(rows, in_order(rows.columns)), ARRAYS)
    table.attrs |= rows.attrs
    return table


def find_golden(name: str) -> dict[str, Any]:
    """Return the findings of a golden table: stages, lineage, what shows its transitions; over seeds what recurs."""
    table = read_golden(name)
    runs = [rows for _, rows in table.groupby("run", sort=False)]
    found = [find_stages(rows) for rows in runs]
    result: dict[str, Any] = {f"stages {i}": _told(stages) for i, stages in enumerate(found)}
    shown = [transitions(stages, rows, 0) for stages, rows in zip(found, runs, strict=True)]
    result |= {f"transitions {i}": [_shown(one) for one in of] for i, of in enumerate(shown)}
    if has_patterns(table):
        result |= {f"lineage {i}": find_lineage(rows).written for i, rows in enumerate(runs)}
    return result | (_over_seeds(table, runs, found, shown[0]) if len(runs) > 1 else {})


def _over_seeds(
    table: pd.DataFrame, runs: list[pd.DataFrame], found: list[Stages], shown: list[Transition]
) -> dict[str, Any]:
    replicates = replicates_of(found, head_roles(table))
    compared = compare_stages(found[0], found[1], head_roles(table))
    return {
        "replicates": _told(replicates),
        "comparison": plain(compared.events) | {"words": str(compared).splitlines()},
        "delays": [list(one) for one in delays(shown, runs[0], runs[1], 0)],
    }


def _shown(one: Transition) -> list[Any]:
    """Return a transition as a curve shows it, with its level in the batch itself."""
    return [one.event, one.label, one.begins, one.comes, float(one.levels[0])]


def _told(finding: Stages | Replicates) -> dict[str, Any]:
    """Return a finding as it is saved, and the lines that it prints."""
    return finding.written | {"words": str(finding).splitlines()}
