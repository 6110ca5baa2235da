"""Two runs on one page: what differs between their recipes, what came when, heads by roles, curves over each other."""

import dataclasses
import html
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from stagewise import plot
from stagewise.checkpoints.run_folder import read_record
from stagewise.findings import paired_roles
from stagewise.findings.delays import Comparison, compare_stages
from stagewise.plain_text import file_part
from stagewise.reporting._html import AbstractShown, wording
from stagewise.reporting._measured_runs import (
    MeasuredRuns,
    curve_parts,
    heads_by_role,
    read_runs,
    stages_part,
    write_runs,
)
from stagewise.reporting._prose import NONE, html_table, number, settings_rows
from stagewise.reporting.page import Part
from stagewise.words import capital, count, counted_in, interval, later
from stagewise.words import names as names_of_events

UNLIKE = "The runs were measured on batches of their own: levels are compared as they are."
BATCH = ("task.", "plan.seeds.evaluation", "batch")
"""Beginnings of settings that decide the probe batch."""

NO_SETTINGS = ("audit", "causes")
"""Entries of a record that say what was found out about a run, not how it was made."""

LISTED = 20
"""Settings that are printed; all are on the page."""


@dataclasses.dataclass(frozen=True, eq=False)
class _ComparisonReport(AbstractShown):
    """Two runs compared: `settings` has what differs between their records as text; heads go by their roles."""

    settings: pd.DataFrame
    comparison: Comparison
    table: pd.DataFrame
    report: Path

    def __str__(self) -> str:
        lines = [f"{row.setting}: {row.first}, {row.second}" for row in self.settings[:LISTED].itertuples()]
        if more := len(self.settings) - len(lines):
            lines.append(f"and {count(more, 'other setting')}, in the report")
        differ = "\n".join(lines or ["no setting that is recorded of both differs"])
        return f"{differ}\n{self.comparison}\nreport: {self.report}"


def compare(
    first: str | Path,
    second: str | Path,
    out: str | Path | None = None,
    *,
    axis: str = "steps",
    tokens_per_step: int | None = None,
) -> _ComparisonReport:
    """Write one page on two measured runs, and return what it shows.

    Args:
        first: the folder of a measured run, with four checkpoints or more.
        second: that of another one, which is compared with it.
        out: the folder of the page and its figures; None takes one in `runs/`, named after both.
        axis: "tokens" compares them by the tokens that each had seen, as where their batches differ in size.
        tokens_per_step: of a run that does not say how many these are.

    Raises:
        FileNotFoundError: a folder holds no table or no record.
        ValueError: both are one folder, or no stages can be looked for in one.
    """
    places = [Path(first), Path(second)]
    if places[0].resolve() == places[1].resolve():
        raise ValueError(f"a run is compared with another one, got {first} twice")
    out = Path("runs", "-against-".join(map(file_part, _told_apart(*places)))) if out is None else Path(out)
    runs, settings = read_runs(places, axis, tokens_per_step), _differences(*map(read_record, places))
    roles = paired_roles(runs.whole)
    table, comparison = runs.aligned(roles), compare_stages(runs.stages[0], runs.stages[1], roles)
    with counted_in(axis):
        both = count(len(comparison.shared), "event")
        page = write_runs(
            out,
            runs,
            _parts(runs, settings, comparison, table),
            of="run",
            name=" and ".join(runs.names),
            headline=f"{count(len(_in_both(settings)), 'setting')} apart, {both} in both",
            finding=" ".join(f"{sentence}." for sentence in _finding(runs, comparison)),
            words=UNLIKE if any(name.startswith(BATCH) for name in settings["setting"]) else "",
        )
    return _ComparisonReport(settings, comparison, table, page)


def _told_apart(first: Path, second: Path) -> tuple[str, str]:
    """Name two folders by the least of their paths' ends in which they differ."""
    parts = [folder.resolve().parts for folder in (first, second)]
    depth = next(n for n in itertools.count(1) if parts[0][-n:] != parts[1][-n:])
    one, other = ("-".join(each[-depth:]).replace(os.sep, "") for each in parts)
    return one, other


def _differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> pd.DataFrame:
    """Return in what two records differ, as text: `setting`, `first`, `second`; a dash for what one does not have."""
    one, other = ({name: of[name] for name in of if name not in NO_SETTINGS} for of in (first, second))
    rows = sorted(_differing(one, other, ""), key=lambda row: NONE in row)
    return pd.DataFrame(rows, columns=["setting", "first", "second"])


def _in_both(settings: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `_differences` of what both records have."""
    return settings[(settings[["first", "second"]] != NONE).all(axis=1)]


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


def _finding(runs: MeasuredRuns, comparison: Comparison) -> list[str]:
    """Say how many stages each run has, and what came first of all, or why nothing is known."""
    named = zip(runs.names, runs.stages, strict=True)
    numbers = ", ".join(f"{name} has {count(len(one), 'stage')}" for name, one in named if not one.unknown)
    lines = str(comparison).splitlines()
    return [*([numbers] if numbers else []), *map(capital, lines[: len(comparison.unknown) + 1])]


def _parts(runs: MeasuredRuns, settings: pd.DataFrame, comparison: Comparison, table: pd.DataFrame) -> Iterator[Part]:
    differ = _settings_html(settings, runs.names) if len(settings) else wording("comparison", "same")
    yield Part("settings", "What differs", differ)
    names = names_of_events(comparison)
    events = [_event_row(row, names[row["event"]]) for row in comparison.events.to_dict("records")]
    body = "".join(f"<p>{html.escape(capital(line))}.</p>" for line in str(comparison).splitlines())
    if events:
        body = html_table(["what", *runs.names, "in the second run"], events) + wording("comparison", "events")
    yield Part("events", "What came when", body)
    yield stages_part("run", runs.stages)
    if len(comparison.roles):
        heads = f"<p>{wording('comparison', 'roles')}</p>{_heads(comparison.roles, runs.names)}"
        yield Part("roles", "Heads by their roles", heads)
    first, second = map(html.escape, runs.names)
    caption = wording("comparison", "curves", first=first, second=second)
    yield from curve_parts(table, "compared", plot.compared, caption)


def _settings_html(settings: pd.DataFrame, names: Sequence[str]) -> str:
    """Return the fields of both records as a table; those of one alone, as defaults that it spells out, are folded."""
    both = _in_both(settings)
    alone, columns = settings.drop(both.index), ["setting", *names]
    table = html_table(columns, both.to_numpy().tolist()) if len(both) else ""
    if alone.empty:
        return table
    summary = f"{count(len(alone), 'setting')} that one record alone has"
    folded = html_table(columns, alone.to_numpy().tolist())
    return f"{table}<details><summary>{summary}</summary>{folded}</details>"


def _event_row(row: dict[Any, Any], name: str) -> list[object]:
    times = [(row["step"], row["lo"], row["hi"]), (row["other"], row["other_lo"], row["other_hi"])]
    steps = [NONE if pd.isna(time[0]) else interval(*time) for time in times]
    return [name, *steps, NONE if pd.isna(row["later"]) else later(row)]


def _heads(roles: pd.DataFrame, names: Sequence[str]) -> str:
    second = roles[roles["run"] == names[1]].to_dict("records")
    distances = {(row["layer"], row["role"]): number(row["distance"]) for row in second}
    rows = [
        [*heads, NONE if heads[0] == NONE else distances.get(pair, NONE)]
        for pair, heads in heads_by_role(roles, names).items()
    ]
    return html_table([*names, "distance"], rows)
