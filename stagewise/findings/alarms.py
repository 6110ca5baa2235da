"""Alarms: what in a run so far asks for a person. Data; `words.alarms_in_words` writes them."""

import dataclasses
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import pandas as pd

from stagewise.criteria import DEFAULT, StageCriteria
from stagewise.findings._episodes import is_training_loss, overfitting
from stagewise.findings.scores import Curve, followed, of_whole_model
from stagewise.findings.stages import Stages


class AlarmKind(StrEnum):
    """Kinds of alarms."""

    NOT_FINITE = "not finite"
    """A curve of the model as a whole is nan or infinite to the end, also where a trainer writes another value."""

    DIVERGES = "diverges"
    """A loss that is no held-out one has a minimum behind it, from which it rises: slowly, as no spike does."""

    DIES = "dies"
    """A head loses half of what an onset of its attention had brought."""

    MISSING = "missing"
    """An event that was expected by a step had no onset until then."""


@dataclasses.dataclass(frozen=True)
class Alarm:
    """One alarm: its kind, the step from which on it shows, and the labels of its curve, or the `event` expected."""

    kind: AlarmKind
    step: float
    labels: Mapping[Any, Any]


def alarms_of(
    table: pd.DataFrame,
    stages: Stages | None,
    expected: Mapping[str, int] | None = None,
    criteria: StageCriteria = DEFAULT,
) -> list[Alarm]:
    """Return the alarms of a run so far, by their steps.

    Args:
        table: of one run, from `measure` or `read_log`.
        stages: what was found in it; None where it is too short.
        expected: events, as words in the name of a curve, a relation or a head, and the steps by which they must come.
        criteria: the thresholds.
    """
    found = [each for curve in of_whole_model(followed(table, criteria)) for each in _of_curve(curve)]
    onsets = None if stages is None else stages.onsets[stages.onsets["onset"].astype(bool)]
    if onsets is not None and "head" in onsets:
        dead = onsets[onsets["head"].notna() & onsets["transient"] & onsets["after"].gt(onsets["before"])]
        found += [Alarm(AlarmKind.DIES, float(row["last_step"]), row) for row in dead.to_dict("records")]
    last = int(table["step"].max())
    for event, step in (expected or {}).items():
        if last >= step and not _came(onsets, event, step):
            found.append(Alarm(AlarmKind.MISSING, float(step), {"event": event}))
    return sorted(found, key=lambda one: one.step)


def _of_curve(curve: Curve) -> Sequence[Alarm]:
    labels = {"probe": curve.probe, "quantity": curve.quantity}
    if curve.lost:
        return [Alarm(AlarmKind.NOT_FINITE, curve.lost[0], labels)]
    rises = overfitting(None, curve) if is_training_loss(curve) and curve.can_be_judged else ()
    return [Alarm(AlarmKind.DIVERGES, one["start"], {**labels, **one}) for one in rises]


def _came(onsets: pd.DataFrame | None, event: str, step: int) -> bool:
    """Whether the name of a curve with an onset by a step has all the words of an event."""
    if onsets is None or onsets.empty:
        return False
    early = onsets[onsets["t50"].le(step)]
    names = [" ".join(map(str, row)).lower() for row in early.select_dtypes(exclude="number").itertuples(index=False)]
    return any(all(word in name for word in event.lower().split()) for name in names)
