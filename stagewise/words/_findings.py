"""Each kind of finding in sentences, and alarms."""

import textwrap
from collections.abc import Iterable

from stagewise.findings import Stages
from stagewise.findings.alarms import Alarm, AlarmKind
from stagewise.findings.batch_familiarity import BatchFamiliarity, Familiarity
from stagewise.findings.delays import Comparison
from stagewise.findings.lineage import Lineage
from stagewise.findings.replicates import Replicates
from stagewise.words import _delays, seeds, stages
from stagewise.words._answer import answer
from stagewise.words._events import event_names
from stagewise.words._onsets import head
from stagewise.words._times import at, counted_in

Finding = Stages | Lineage | Replicates | Comparison | BatchFamiliarity

ALARMS = {
    AlarmKind.NOT_FINITE: "{label} is not finite from {step} on",
    AlarmKind.DIVERGES: "{label} has its minimum at {step}, and rises from {before} to {after}: the run diverges",
    AlarmKind.DIES: "{label} rose from {before} to {after}, and is back at {last} by {step}: the head dies",
    AlarmKind.MISSING: "no onset of {event} by {step}",
}
"""Kind of alarm -> what is said of it."""

ADVICE = (
    "Measure on sequences that it was trained on: --tokens FILE or --text FILE; in Python, `tokens=` or `text=` of "
    "analyse, or batch=Batch.from_tokens(tokens)."
)
CAVEAT = "Measured on a batch that is foreign to the model"
"""The line above every finding on such a batch."""


def in_words(finding: Finding) -> str:
    """Return a finding in sentences, one a line, with its times in steps or tokens: as `print` shows it.

    >>> from stagewise import find_stages, read_log
    >>> few = find_stages(read_log({"step": range(4), "accuracy": [0.1, 0.1, 0.9, 0.9]}))
    >>> in_words(few).partition(",")[0]
    'no stages can be found: with 4 checkpoints no onset can be distinguished from noise'
    """
    with counted_in(finding.axis):
        return "\n".join(_lines(finding))


def _lines(finding: Finding) -> list[str]:
    match finding:
        case Stages():
            first = [] if finding.unknown else [" ".join(answer(finding))]
            return [*first, *stages.stages(finding)]
        case Lineage():
            return [*stages.kinds(finding.kinds), *stages.events(finding.events, finding.kinds)]
        case Replicates():
            names = event_names(finding.catalogue, finding.quantities)
            of_events = seeds.events(finding.events, len(finding.runs), names)
            return [*of_events, *seeds.order(finding.order, names)]
        case Comparison():
            return _delays.comparison(finding)
        case BatchFamiliarity():
            return [familiarity(finding)]


def alarms_in_words(alarms: Iterable[Alarm]) -> list[str]:
    """Return a sentence for each alarm."""
    lines = []
    for alarm in alarms:
        row = alarm.labels
        levels = {name: f"{row[name]:.3g}" for name in ("before", "after", "last") if name in row}
        of = row.get("relation") if isinstance(row.get("relation"), str) else row.get("quantity")
        label = f"{head(row)}, {of}" if "head" in row else of
        lines.append(ALARMS[alarm.kind].format(label=label, event=row.get("event"), step=at(alarm.step), **levels))
    return lines


def familiarity(judged: BatchFamiliarity) -> str:
    """Say whether the models know the probe batch, by which losses, and what to do where they do not."""
    if judged.unknown:
        return "Whether the probe batch is foreign to this model is not known: no loss was measured (Loss)."
    if not judged.foreign:
        return (
            f"This model knows the probe batch: its loss goes from {judged.first:.2f} to {judged.last:.2f} nats, "
            f"below the {judged.guess:.2f} of a guess."
        )
    barely = "hardly" if judged.last < judged.guess else "no"
    why = (
        f"its loss rises over training, from {judged.first:.2f} nats"
        if judged.verdict is Familiarity.RISES
        else f"at {at(judged.step)} the model predicts it {barely} better than a guess"
    )
    return (
        f"The probe batch is foreign to this model: {why} (loss {judged.last:.2f} nats, a guess {judged.guess:.2f}). "
        f"What it shows is not what the model was trained for. {ADVICE}"
    )


def qualified(findings: str, judged: BatchFamiliarity | None) -> str:
    """Return findings in words; on a foreign batch indented below a line that says so."""
    if judged is None or not judged.foreign:
        return findings
    return f"{CAVEAT}:\n{textwrap.indent(findings, '  ')}"


def warned(findings: str, judged: BatchFamiliarity | None) -> str:
    """Return findings in words, as `qualified`, below what `caution` says."""
    return caution(judged) + qualified(findings, judged)


def caution(judged: BatchFamiliarity | None) -> str:
    """Return a line that says of a batch that it is foreign, and what to do, or that nobody knows; else nothing."""
    return f"{familiarity(judged)}\n" if judged is not None and (judged.foreign or judged.unknown) else ""
