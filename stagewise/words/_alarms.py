"""Alarms as sentences."""

from collections.abc import Iterable

from stagewise.findings.alarms import Alarm, AlarmKind
from stagewise.words._onsets import head
from stagewise.words._times import at

ALARMS = {
    AlarmKind.NOT_FINITE: "{label} is not finite from {step} on",
    AlarmKind.DIVERGES: "{label} has its minimum at {step}, and rises from {before} to {after}: the run diverges",
    AlarmKind.DIES: "{label} rose from {before} to {after}, and is back at {last} by {step}: the head dies",
    AlarmKind.MISSING: "no onset of {event} by {step}",
}
"""Kind of alarm -> what is said of it."""


def alarms_in_words(alarms: Iterable[Alarm]) -> list[str]:
    """Return a sentence for each alarm."""
    return [_sentence(each) for each in alarms]


def _sentence(alarm: Alarm) -> str:
    row = alarm.labels
    levels = {name: f"{row[name]:.3g}" for name in ("before", "after", "last") if name in row}
    of = row.get("relation") if isinstance(row.get("relation"), str) else row.get("quantity")
    label = f"{head(row)}, {of}" if "head" in row else of
    return ALARMS[alarm.kind].format(label=label, event=row.get("event"), step=at(alarm.step), **levels)
