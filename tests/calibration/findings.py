"""Laws, boundaries and head events on planted runs."""

from collections.abc import Iterator

from tests.calibration.onsets import Job


def jobs() -> Iterator[tuple[str, Job]]:
    """Yield every case by its name."""
    yield from ()
