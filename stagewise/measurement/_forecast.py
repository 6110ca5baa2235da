"""How long the rest of a measurement takes about, and whose edited passes take most of it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stagewise.architecture import Architecture
from stagewise.probe import AbstractProbe

_WORTH_SAYING = 60.0
"""Seconds of work left from which on it is said."""

_MUCH = 0.2
"""Share of the time from which on a probe's edited passes are named."""


class Cost(NamedTuple):
    """Seconds of a checkpoint, and each probe's part of them, by the name of its kind: see `_checkpoint._Readings`."""

    seconds: float
    of_probes: Mapping[str, float]


def forecast(
    cost: Cost, left: int, workers: int, probes: Sequence[AbstractProbe], architecture: Architecture
) -> str | None:
    """Return in a line how long the checkpoints left take about; None for less than a minute."""
    seconds = left * cost.seconds / workers
    if seconds < _WORTH_SAYING:
        return None
    checkpoints = "1 checkpoint" if left == 1 else f"{left} checkpoints"
    line = f"the other {checkpoints} take about {in_words(seconds)}"
    shares = {
        type(probe).__name__: (cost.of_probes.get(type(probe).__name__, 0.0) / cost.seconds, len(edits))
        for probe in probes
        if (edits := set(probe.edits(architecture)))
    }
    much = sorted((name for name in shares if shares[name][0] >= _MUCH), key=lambda name: -shares[name][0])
    if not much:
        return line
    parts = [f"{name}'s {shares[name][1]} edits {shares[name][0]:.0%}".replace("%", " %") for name in much]
    without = " ".join(f"--without {name}" for name in much)
    return f"{line}, of which {' and '.join(parts)}: `{without}` leaves them out"


def in_words(seconds: int | float) -> str:
    """Return a time in minutes, or in hours and minutes."""
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
