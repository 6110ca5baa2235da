"""What a logged learning rate did to its run is a cause, from Python as from the command line."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from stagewise.checkpoints.logged_curves import read_log
from stagewise.findings._logged_causes import causes_in
from stagewise.findings.onsets import find_onsets
from stagewise.findings.replicates import find_replicates
from stagewise.findings.stages import find_stages
from stagewise.reporting._logged import logged_folder
from stagewise.saved_findings import load_stages

STEPS = np.arange(0, 5000, 50)
NAME = "the learning rate's drop to 0.0001"


@pytest.fixture
def log() -> pd.DataFrame:
    """A loss that falls at once where the learning rate drops, between 2450 and 2500."""
    falls = 3 * (1 + STEPS / 50) ** -0.3 - 0.3 / (1 + np.exp(-(STEPS - 2550) / 20))
    noise = 0.02 * np.random.default_rng(3).standard_normal(len(STEPS))
    return pd.DataFrame({"step": STEPS, "loss": falls + noise, "lr": np.where(STEPS < 2500, 1e-3, 1e-4)})


def test_python_and_the_command_line_know_the_same_causes(
    log: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    log.to_csv("log.csv", index=False)
    table = read_log("log.csv")
    assert find_onsets(table)["cause"].tolist() == [NAME]
    for stages in (find_stages(table), load_stages(table), load_stages(logged_folder("log.csv"))):
        assert stages is not None
        assert stages.causes == {NAME: 2475}
        assert f"coincides with {NAME} at step 2475" in stages.words()
    assert find_onsets(table, causes={})["onset"].tolist() == [True]


def test_of_several_runs_each_has_its_own(log: pd.DataFrame) -> None:
    constant = log.assign(run="constant", lr=1e-3)
    findings = find_replicates(read_log(pd.concat([log.assign(run="dropped"), constant]))).findings
    assert findings["run"].unique().tolist() == ["constant"]


def test_rates_of_groups_of_parameters_name_each_change_once(log: pd.DataFrame) -> None:
    later = log["lr"].where(STEPS != 2500, 1e-3)
    assert causes_in(read_log(log.assign(lr_1=log["lr"]))) == {NAME: 2475}
    assert causes_in(read_log(log.assign(lr_1=later))) == {NAME: 2475, f"{NAME} (number 2)": 2525}


@pytest.mark.parametrize("at", [20_000, 20_130, 20_199])
def test_a_jump_in_a_log_of_every_step_stays_one(at: int) -> None:
    steps = np.arange(50_000)
    [(name, step)] = causes_in(read_log({"step": steps, "lr": np.where(steps < at, 1e-3, 1e-4)})).items()
    assert name == NAME
    assert step == pytest.approx(at, abs=250)
