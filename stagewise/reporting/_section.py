"""A section of the report as data: its title, its needs, and the function that makes it."""

import dataclasses
from collections.abc import Callable

from stagewise.reporting._figure import Plot
from stagewise.reporting._measured import Measured

PANELS = 12
"""Heads, or maps, that are drawn one by one; the rest is in the table."""

Blocks = list[str | Plot]
"""Paragraphs and figures, from top to bottom; none where there is nothing to say."""


def _always(measured: Measured) -> bool:
    """Say that a section can be made of every run."""
    return True


def never_missing(measured: Measured) -> bool:
    """Never list the section as missing."""
    return False


@dataclasses.dataclass(frozen=True)
class Section:
    """A section of the report.

    Args:
        identifier: of its place in the page.
        title: in plain words.
        make: returns what it shows.
        needs: probes, as in "Loss", or quantities, as in "AttentionTo.mass", that it shows; no other section
            shows them again.
        applies: whether it could be made of this run, if the probes were measured; if not, it is not listed as missing.
        reads: probes and quantities whose rows it is given, where these are others than it needs.
        of_batch: whether what it shows depends on the probe batch: then a foreign one is reported in it.
        folded: whether it is a detail, which the page shows when it is asked for.
    """

    identifier: str
    title: str
    make: Callable[[Measured], Blocks]
    needs: tuple[str, ...] = ()
    applies: Callable[[Measured], bool] = _always
    reads: tuple[str, ...] = ()
    of_batch: bool = True
    folded: bool = True

    def blocks(self, measured: Measured) -> Blocks:
        """Return the section of a run; nothing where its needs were not measured."""
        if not self.needs:
            return self.make(measured.only(self.reads) if self.reads else measured)
        if not any(measured.has(name) for name in self.needs):
            return []
        return self.make(measured.only(self.reads or self.needs))

    @property
    def missing(self) -> str:
        """Missing parts that a report without the section names: the title, and the probes to measure."""
        probes = dict.fromkeys(name.partition(".")[0] for name in self.needs)
        return f"{self.title} ({', '.join(probes)})" if probes else self.title
