"""Where finer checkpoints would tell most: the widest intervals of a run's boundaries."""

from typing import NamedTuple

from stagewise.findings.stages import Stages

BESIDE = 0.5
"""Part of an interval's width by which finer checkpoints reach beyond it on each side: a minimum has a valley."""


class Window(NamedTuple):
    """Steps from `start` to `stop` between which a stage begins, the 95 % interval of its boundary; or any others."""

    start: int
    stop: int
    stage: int | None = None

    @property
    def width(self) -> int:
        """Steps from one end to the other."""
        return self.stop - self.start

    @property
    def reach(self) -> range:
        """The steps whose checkpoints tell where in the interval the boundary is: those beside it too."""
        beside = 0 if self.stage is None else round(BESIDE * self.width)
        return range(max(self.start - beside, 0), self.stop + beside)

    def __str__(self) -> str:
        if self.stage is None:
            return f"steps {self.start} to {self.stop}"
        return f"stage {self.stage} begins between {self.start} and {self.stop}, {self.width} steps"


def windows(stages: Stages) -> list[Window]:
    """Return the intervals in which stages begin, all but the first's, the widest first: finer checkpoints tell most.

    Those of a step need no finer ones.
    """
    rows = stages.table.iloc[1:].to_dict("records")
    found = [Window(int(row["start_lo"]), int(row["start_hi"]), int(row["stage"])) for row in rows]
    return sorted((window for window in found if window.width > 1), key=lambda window: -window.width)
