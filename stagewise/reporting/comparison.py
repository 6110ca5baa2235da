"""Two measured runs in words: what differs between their recipes, and what came when, heads by their roles."""

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from stagewise.checkpoints.run_folder import read_record
from stagewise.findings import paired_roles
from stagewise.findings.batch_familiarity import BatchFamiliarity
from stagewise.findings.delays import Comparison, compare_stages
from stagewise.reporting._measured_runs import first_foreign, read_runs
from stagewise.reporting._prose import NONE, settings_rows
from stagewise.words import count, qualified

NO_SETTINGS = ("audit", "causes")
"""Entries of a record that say what was found out about a run, not how it was made."""

LISTED = 20
"""Settings that are printed."""


@dataclasses.dataclass(frozen=True, eq=False)
class _Compared:
    """Two runs compared: `settings` has what differs between their records as text; heads go by their roles."""

    settings: pd.DataFrame
    comparison: Comparison
    foreign: BatchFamiliarity | None = None

    def __str__(self) -> str:
        lines = [f"{row.setting}: {row.first}, {row.second}" for row in self.settings[:LISTED].itertuples()]
        if more := len(self.settings) - len(lines):
            lines.append(f"and {count(more, 'other setting')}")
        differ = "\n".join(lines or ["no setting that is recorded of both differs"])
        return f"{differ}\n{qualified(str(self.comparison), self.foreign)}"


def compare(
    first: str | Path, second: str | Path, *, axis: str = "steps", tokens_per_step: int | None = None
) -> _Compared:
    """Compare two measured runs: what differs between their records, and what came when. `report` draws both.

    Args:
        first: the folder of a measured run, with four checkpoints or more.
        second: that of another one, which is compared with it.
        axis: "tokens" compares them by the tokens that each had seen, as where their batches differ in size.
        tokens_per_step: of a run that does not say how many these are.

    Raises:
        FileNotFoundError: a folder holds no table or no record.
        ValueError: both are one folder, or no stages can be looked for in one.
    """
    places = [Path(first), Path(second)]
    if places[0].resolve() == places[1].resolve():
        raise ValueError(f"a run is compared with another one, got {first} twice")
    runs, settings = read_runs(places, axis, tokens_per_step), _differences(*map(read_record, places))
    compared = compare_stages(runs.stages[0], runs.stages[1], paired_roles(runs.whole))
    return _Compared(settings, compared, first_foreign(runs.familiarities))


def _differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> pd.DataFrame:
    """Return in what two records differ, as text: `setting`, `first`, `second`; a dash for what one does not have."""
    one, other = ({name: of[name] for name in of if name not in NO_SETTINGS} for of in (first, second))
    rows = sorted(_differing(one, other, ""), key=lambda row: NONE in row)
    return pd.DataFrame(rows, columns=["setting", "first", "second"])


def _differing(first: Mapping[str, Any], second: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str, str]]:
    for name in dict.fromkeys([*first, *second]):
        one, other, path = first.get(name, pd.NA), second.get(name, pd.NA), f"{prefix}{name}"
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            yield from _differing(one, other, f"{path}.")
        elif one is pd.NA or other is pd.NA or one != other:
            yield path.removeprefix("recipe."), _in_short(one), _in_short(other)


def _in_short(value: Any) -> str:
    if value is pd.NA:
        return NONE
    return ", ".join(f"{name} {text}".strip() for name, text in settings_rows({"": value}))
