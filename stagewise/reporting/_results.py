"""The results of an analysis, as they print and as a notebook shows them."""

import dataclasses
from pathlib import Path

import pandas as pd

from stagewise.checkpoints.findings import Audit
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.findings import Stages
from stagewise.findings.batch_familiarity import BatchFamiliarity
from stagewise.findings.behaviour import find_behaviour
from stagewise.reporting._html import AbstractShown
from stagewise.words import caution, qualified
from stagewise.words.behaviour import behaviour as in_words
from stagewise.words.stages import NO_STAGES

ONE = "one checkpoint has no stages: the report says what its heads do"


@dataclasses.dataclass(frozen=True, eq=False)
class Analysis(AbstractShown):
    """The results of `run` or `analyse`.

    Args:
        series: what was analysed.
        audit: the faults of its checkpoints; None for a run, whose checkpoints were just written.
        table: all that was measured.
        stages: None where the table cannot show any: neither references nor scores, or fewer than four checkpoints.
        report: the HTML file.
        familiarity: whether the models know sequences like those of the probe batch; None for a run, and where no
            loss was measured.
    """

    series: CheckpointSeries
    audit: Audit | None
    table: pd.DataFrame
    stages: Stages | None
    report: Path
    familiarity: BatchFamiliarity | None = None

    def __str__(self) -> str:
        none = ONE if len(self.series) == 1 else NO_STAGES
        stages = qualified(none if self.stages is None else str(self.stages), self.familiarity)
        if (found := find_behaviour(self.table, None if self.stages is None else self.stages.onsets)) is not None:
            stages = "\n".join([*in_words(found), stages])
        faults = "" if self.audit is None else f"{self.audit}\n"
        return f"{caution(self.familiarity)}{self.series}\n{faults}{stages}\nreport: {self.report}"
