"""Alarms on records: a run is looked at while it grows, and its first alarm is told with where it was seen."""

from pathlib import Path

import numpy as np
import pandas as pd

from evidence.records.alarms import first_alarm, runs_of


def test_the_first_alarm_of_a_growing_record_is_told_and_a_healthy_one_has_none(tmp_path: Path) -> None:
    steps = np.arange(0, 1000, 10)
    falls = 1 + 3 * (1 + steps / 50.0) ** -0.7 + 0.01 * np.random.default_rng(0).standard_normal(len(steps))
    for name, loss in (("whole", falls), ("lost", np.where(steps < 550, falls, np.nan))):
        pd.DataFrame({"step": steps, "loss": loss}).to_csv(tmp_path / f"{name}.csv", index=False)
    ((run, table),) = runs_of(tmp_path / "lost.csv")
    alarm = first_alarm("lost", run, table)
    assert alarm is not None
    assert (alarm.step, alarm.line) == (550, "loss is not finite from step 550 on")
    ((run, table),) = runs_of(tmp_path / "whole.csv")
    assert first_alarm("whole", run, table) is None
    assert [*runs_of(tmp_path)] == []
