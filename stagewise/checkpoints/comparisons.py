"""Findings at single checkpoints: a file that cannot be read, a step or a description that differs from the others'."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from stagewise.checkpoints.findings import Finding, Kind
from stagewise.checkpoints.pickles import NotOnlyWeightsError
from stagewise.checkpoints.sources import Entry, Source


def at_entry(kind: Kind, entry: Entry, **details: Any) -> Finding:
    """Return a finding at one checkpoint."""
    return Finding(kind, (entry.at.step,), (entry.label,), entry.at.branch, **details)


def unread(source: Source, entry: Entry, reason: Exception) -> Finding:
    """Return the finding of a file that could not be read; a hub that does not answer ends the audit.

    Raises:
        OSError: the hub does not answer.
    """
    if source.remote and isinstance(reason, OSError) and not isinstance(reason, FileNotFoundError):
        raise reason
    kinds = {FileNotFoundError: Kind.NO_WEIGHTS, NotOnlyWeightsError: Kind.NOT_ONLY_WEIGHTS}
    return at_entry(kinds.get(type(reason), Kind.DAMAGED), entry, reason=str(reason))


def other_steps(recorded: Mapping[Entry, int], where: str) -> Iterator[Finding]:
    """Yield the checkpoints that record another step than their name.

    If most do, names count something else, as epochs: then those count that record a smaller step than one before.
    """
    others = {entry: step for entry, step in recorded.items() if step != entry.at.step}
    if 2 * len(others) > len(recorded) > 1:
        ordered = sorted(others, key=lambda entry: (entry.at.branch, entry.at.step))
        pairs = [(one, two) for one, two in pairwise(ordered) if one.at.branch == two.at.branch]
        others = {two: others[two] for one, two in pairs if others[two] < others[one]}
    for entry, step in others.items():
        yield at_entry(Kind.OTHER_STEP_RECORDED, entry, other_step=step, reason=where)


def unusual(kind: Kind, entries: Sequence[Entry], described: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Compare each checkpoint's description with the most common one."""
    texts = [repr(sorted(description.items())) for description in described]
    most_common = Counter(texts).most_common(1)
    usual = described[texts.index(most_common[0][0])] if most_common else {}
    for entry, description in zip(entries, described, strict=True):
        names = sorted(name for name in description.keys() | usual.keys() if description.get(name) != usual.get(name))
        if names:
            yield at_entry(kind, entry, differences={name: (description.get(name), usual.get(name)) for name in names})
