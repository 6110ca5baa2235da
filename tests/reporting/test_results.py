"""What an analysis prints: a foreign batch first."""

from pathlib import Path

import pandas as pd

from stagewise.checkpoints.series import CheckpointSeries
from stagewise.detection.home import Familiarity, Home
from stagewise.reporting.results import Analysis


def test_a_foreign_batch_is_the_first_line(small_run: CheckpointSeries, tmp_path: Path) -> None:
    home = Home(Familiarity.RISES, 2.0, 3.0, 4.0, 9)
    foreign = Analysis(small_run, None, pd.DataFrame(), None, tmp_path / "report.html", home)
    assert str(foreign).startswith("The probe batch is foreign to this model: its loss rises over training")
    plain = Analysis(small_run, None, pd.DataFrame(), None, tmp_path / "report.html")
    assert str(plain).splitlines()[1].startswith("stages cannot be told")
