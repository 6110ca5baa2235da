"""Findings at single checkpoints: a file that cannot be read, a step or a description that differs from the others'."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from stagewise.checkpoints._formats import OtherFormError
from stagewise.checkpoints._pickles import NotOnlyWeightsError
from stagewise.checkpoints.findings import Finding, Kind
from stagewise.checkpoints.sources import Entry, Source


def at_entry(kind: Kind, *entries: Entry, **details: Any) -> Finding:
    """Return a finding at a checkpoint, or at several."""
    steps, labels, branches = zip(*((one.at.step, one.label, one.at.branch) for one in entries), strict=True)
    return Finding(kind, steps, labels, branches[0] if len({*branches}) == 1 else "", **details)


def read_each(
    source: Source, entries: Iterable[Entry], read: Callable[[Entry], Any]
) -> tuple[dict[Entry, Any], list[Finding]]:
    """Return each checkpoint's reading, and findings on unreadable ones; a hub that does not answer ends the audit."""
    kinds = {FileNotFoundError: Kind.NO_WEIGHTS, OtherFormError: Kind.NO_WEIGHTS}
    kinds[NotOnlyWeightsError] = Kind.NOT_ONLY_WEIGHTS
    contents, faults = dict[Entry, Any](), list[Finding]()
    for entry in entries:
        try:
            contents[entry] = read(entry)
        except (ValueError, OSError) as reason:
            if source.remote and isinstance(reason, OSError) and not isinstance(reason, FileNotFoundError):
                raise
            faults.append(at_entry(kinds.get(type(reason), Kind.DAMAGED), entry, reason=str(reason)))
    return contents, faults


def other_steps(recorded: Mapping[Entry, int], where: str) -> Iterator[Finding]:
    """Yield the checkpoints that record another step than their name; where most do, those that record less."""
    others = {entry: step for entry, step in recorded.items() if step != entry.at.step}
    if 2 * len(others) > len(recorded) > 1:
        ordered = sorted(others, key=lambda entry: (entry.at.branch, entry.at.step))
        pairs = [(one, two) for one, two in pairwise(ordered) if one.at.branch == two.at.branch]
        others = {two: others[two] for one, two in pairs if others[two] < others[one]}
    for entry, step in others.items():
        yield at_entry(Kind.OTHER_STEP_RECORDED, entry, other_step=step, reason=where)


def unusual(kind: Kind, described: Mapping[Entry, Mapping[str, Any]]) -> Iterator[Finding]:
    """Compare each checkpoint's description with the most common one."""
    texts = [repr(sorted(one.items())) for one in described.values()]
    by_text = dict(zip(texts, described.values(), strict=True))
    usual = by_text[Counter(texts).most_common(1)[0][0]] if texts else {}
    for entry, description in described.items():
        pairs = {name: (description.get(name), usual.get(name)) for name in sorted({*description, *usual})}
        if differences := {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}:
            yield at_entry(kind, entry, differences=differences)
