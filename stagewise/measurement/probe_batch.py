"""The fixed probe batch: what of a task's sequences is measured on, and the lines that say what is left out."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stagewise.task import AbstractTask, Batch

FEWEST = 8
"""Sequences that a relation starts in at least, or half of all: the interval of a mean over fewer says little."""


MORE = "`stagewise measure --sequences N`, or sequences=N in Python, takes more"


class Drawn(NamedTuple):
    """A probe batch, and lines that say on how many sequences it measures, and which relations on fewer."""

    batch: Batch
    notes: tuple[str, ...]


def drawn(task: AbstractTask, n: int, seed: int, *, asked: bool = False) -> Drawn:
    """Draw the probe batch of a task: sequences with a scored prediction, and relations that enough of them have.

    Args:
        task: of the models, or of one's own data.
        n: how many sequences.
        seed: of the draw.
        asked: whether so many were asked for.

    Raises:
        ValueError: less than one sequence.
    """
    if n < 1:
        raise ValueError(f"a probe batch has at least one sequence, got sequences={n}")
    sample = task.probe_batch(n, seed)
    batch = usable(sample)
    notes = []
    if task.available is not None:
        more = "" if asked or len(sample) >= task.available else f": {MORE}"
        notes.append(f"measured on {len(batch)} of {task.available} sequences{more}")
    if len(batch) < len(sample):
        notes.append(f"{len(sample) - len(batch)} of {len(sample)} sequences have no scored prediction: left out")
    return Drawn(batch, (*notes, *_of_relations(sample[sample.scored.any(1)], batch.relations)))


def usable(batch: Batch) -> Batch:
    """Return the sequences with a scored prediction, all if there are none, and the relations that enough of them have.

    Some windows of a text, for instance, hold no token twice, and so no key of the relation `duplicate token`. They
    stay, and `Reading.exists` leaves them out of the means of this relation alone.
    """
    scored = batch.scored.any(1)
    if bool(scored.any()) and not bool(scored.all()):
        batch = batch[scored]
    enough = min(FEWEST, (len(batch) + 1) // 2)
    starts = {name: int(batch.starts(name).sum()) for name in batch.relations}
    return batch.with_relations([name for name, number in starts.items() if number >= enough])


def _of_relations(batch: Batch, kept: Mapping[str, object]) -> Sequence[str]:
    """Say which relations start in some sequences only: they are averaged over these, or left out."""
    names = defaultdict[tuple[int, bool], list[str]](list)
    for name in batch.relations:
        if (number := int(batch.starts(name).sum())) < len(batch):
            names[number, name in kept].append(repr(name))
    return [
        f"{' and '.join(each)} in {number} of {len(batch)} sequences: "
        + ("averaged over these" if is_kept else "too few, left out")
        for (number, is_kept), each in names.items()
    ]
