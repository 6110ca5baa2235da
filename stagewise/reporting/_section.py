"""A section of the report as data: its title, its needs, and the function that makes it."""

import dataclasses
import functools
import html
from collections.abc import Callable, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stagewise.findings import Stages
from stagewise.reporting._figure import Plot, identifier
from stagewise.reporting._measured import Measured

PANELS = 12
"""Heads, or maps, that are drawn one by one; the rest is in the table."""

Blocks = list[str | Plot]
"""Paragraphs and figures, from top to bottom; none where there is nothing to say."""


@dataclasses.dataclass(frozen=True)
class Section:
    """A section of the report.

    It shows the probes, as in "Loss", or quantities, as in "AttentionTo.mass", that it `needs`, and no other section
    does; it is given the rows of those that it `reads`, where these are others. `applies` says whether it could be made
    of any run, or of this one, at all: if not, it is not listed as missing. If it is `of_batch`, a foreign batch is
    reported in it.
    """

    identifier: str
    title: str
    make: Callable[[Measured], Blocks]
    needs: tuple[str, ...] = ()
    applies: bool | Callable[[Measured], bool] = True
    reads: tuple[str, ...] = ()
    of_batch: bool = True
    folded: bool = True

    def applies_to(self, measured: Measured) -> bool:
        """Whether it could be made of a run."""
        return self.applies(measured) if callable(self.applies) else self.applies

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


Draw = Callable[[pd.DataFrame, Stages | None], Axes | Figure]
"""A figure of rows of a table and of the stages of their run."""


def section(title: str, caption: str, needs: Sequence[str], draw: Draw) -> Section:
    """Return a section of one figure, for `report(folder, sections=[...])`, or for every report of this machine: as an
    entry point of the group `stagewise.sections`.

    Args:
        title: of the section.
        caption: of its figure: what to look for.
        needs: probes, as in "Loss", or quantities, as in "AttentionTo.mass", that it shows; without them it is left
            out, and one that has no section otherwise gets no further one.
        draw: makes the figure from these rows and the stages of the run, as the functions of `stagewise.plot` do.

    >>> from stagewise import plot
    >>> section("My loss", "Look for a fall.", ["Loss"], plot.loss_curve).missing
    'My loss (Loss)'
    """
    name = f"own-{identifier(title).lower()}"
    return Section(name, title, functools.partial(_own, name, caption, draw), tuple(needs), applies=False)


def _own(name: str, caption: str, draw: Draw, measured: Measured) -> Blocks:
    rows = measured.table
    return [Plot(name, {"": draw(rows, measured.stages)}, rows, html.escape(caption))]
