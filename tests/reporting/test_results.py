"""What an analysis prints: a foreign batch first."""

from pathlib import Path

import pandas as pd

from stagewise.checkpoints.series import CheckpointSeries
from stagewise.findings.batch_familiarity import BatchFamiliarity, Familiarity
from stagewise.findings.stages import find_stages
from stagewise.reporting._results import Analysis
from stagewise.words import CAVEAT


def test_a_foreign_batch_is_the_first_line_and_qualifies_what_was_found(
    small_run: CheckpointSeries, one_onset: pd.DataFrame, tmp_path: Path
) -> None:
    familiarity = BatchFamiliarity(Familiarity.RISES, 2.0, 3.0, 4.0, 9)
    stages = find_stages(one_onset)
    foreign = Analysis(small_run, None, one_onset, stages, tmp_path / "report.html", familiarity)
    before, after = str(foreign).split(f"\n{CAVEAT}:\n")
    assert before.startswith("The probe batch is foreign to this model: its loss rises over training")
    assert "stage" not in before.splitlines()[-1]
    assert after.splitlines() == [*(f"  {line}" for line in str(stages).splitlines()), f"report: {foreign.report}"]
    plain = Analysis(small_run, None, one_onset.iloc[:0], None, tmp_path / "report.html")
    assert str(plain).splitlines()[1].startswith("no stages can be found")
