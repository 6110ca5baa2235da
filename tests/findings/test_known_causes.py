"""What was done to a run: given or logged, the same from Python as from JSON, and which of it began a transition."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from stagewise.checkpoints.logged_curves import read_log
from stagewise.findings._known_causes import cause_during, cause_within, causes_in, coincidence, known
from stagewise.findings.onsets import find_onsets
from stagewise.findings.replicates import find_replicates
from stagewise.findings.stages import find_stages
from stagewise.reporting._logged import logged_folder
from stagewise.saved_findings import load_stages
from stagewise.statistics import Transition
from stagewise.words._onsets import cause

GIVEN: dict[str, Any] = {
    "a restart": np.int64(3000),
    "the warm-up": np.array([0, 500]),
    "a drop": 2.5,
    "a batch": (10, 20),
}

LOGGED = np.arange(0, 5000, 50)
NAME = "the learning rate's drop to 0.0001"

STEPS = np.arange(0, 2000, 10)
TIMES = 5.0 + 0.1 * np.log([[1 / 9], [1.0], [9.0]]) + np.array([[0.0, -0.1, 0.1]])
ONE = Transition(size=0.6, before=0.1, after=0.7, times=TIMES, bayes=9.0, p_value=1e-6, within_gap=False, noise=0.01)


@pytest.mark.usefixtures("unchecked")
def test_causes_are_saved_and_read_as_what_they_are() -> None:
    expected = {"a restart": 3000, "the warm-up": (0, 500), "a drop": 2.5, "a batch": (10, 20)}
    assert known(GIVEN) == known(json.loads(json.dumps(known(GIVEN)))) == expected


@pytest.mark.parametrize(
    "at", ["3000", None, math.nan, math.inf, (1,), (1, 2, 3), (20, 10), (0, "9"), [[0, 1], [2, 3]]]
)
@pytest.mark.usefixtures("unchecked")
def test_what_is_no_step_is_refused(at: Any) -> None:
    with pytest.raises(ValueError, match=r"^the cause 'x' takes a step, or its first and its last one, as .*; got "):
        find_onsets(read_log({"step": range(9), "loss": range(9)}), causes={"x": at})


@pytest.mark.parametrize("causes", [[3000], "a drop", 3000])
@pytest.mark.usefixtures("unchecked")
def test_what_names_no_steps_is_refused(causes: Any) -> None:
    with pytest.raises(ValueError, match=r"^causes are names with a step each, as .*; got "):
        find_onsets(read_log({"step": range(9), "loss": range(9)}), causes=causes)


def test_a_cause_that_lasts_is_named_until_the_next_checkpoint() -> None:
    causes = known({"late": (3e6, 4e6), "a batch": (10, 20), "the warm-up": (0, 15), "a drop": 12})
    named = [cause_during(causes, at, [0, 10, 18, 30]) for at in (5, 18, 19, 30, 31, 3_500_000)]
    assert named == ["the warm-up", *["a batch"] * 3, "", "late"]
    assert cause_within(causes, 0, 20, 15) == "a drop"
    assert cause("a batch", causes) == "a batch, from step 10 on, until step 20"
    assert cause("late", causes) == "late, from step 3000000 on, until step 4000000"
    assert cause("a drop", causes) == "a drop at step 12"


@pytest.fixture
def log() -> pd.DataFrame:
    """A loss that falls at once where the learning rate drops, between 2450 and 2500."""
    falls = 3 * (1 + LOGGED / 50) ** -0.3 - 0.3 / (1 + np.exp(-(LOGGED - 2550) / 20))
    noise = 0.02 * np.random.default_rng(3).standard_normal(len(LOGGED))
    return pd.DataFrame({"step": LOGGED, "loss": falls + noise, "lr": np.where(LOGGED < 2500, 1e-3, 1e-4)})


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
        assert f"coincides with {NAME} at step 2475" in str(stages)
    assert find_onsets(table, causes={})["onset"].tolist() == [True]


def test_of_several_runs_each_has_its_own(log: pd.DataFrame) -> None:
    constant = log.assign(run="constant", lr=1e-3)
    findings = find_replicates(read_log(pd.concat([log.assign(run="dropped"), constant]))).findings
    assert findings["run"].unique().tolist() == ["constant"]


def test_rates_of_groups_of_parameters_name_each_change_once(log: pd.DataFrame) -> None:
    later = log["lr"].where(LOGGED != 2500, 1e-3)
    assert causes_in(read_log(log.assign(lr_1=log["lr"]))) == {NAME: 2475}
    assert causes_in(read_log(log.assign(lr_1=later))) == {NAME: 2475, f"{NAME} (number 2)": 2525}


@pytest.mark.parametrize("at", [20_000, 20_130, 20_199])
def test_a_jump_in_a_log_of_every_step_stays_one(at: int) -> None:
    steps = np.arange(50_000)
    [(name, step)] = causes_in(read_log({"step": steps, "lr": np.where(steps < at, 1e-3, 1e-4)})).items()
    assert name == NAME
    assert step == pytest.approx(at, abs=250)


def test_a_cause_coincides_within_the_transition_only() -> None:
    for steps, before in ((STEPS, 95), (STEPS[::4], 45)):  # it is seen later, and no sooner than at a checkpoint
        assert coincidence(ONE, {"shortly before": before}, steps)
        assert not coincidence(ONE, {"long before": before - 15}, steps)
    assert coincidence(ONE, {"early": 10, "the drop": 150}, STEPS) == "the drop"
    assert not coincidence(ONE, {"late": 1000}, STEPS)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", ["batch_size", "weight_decay"])
def test_a_setting_that_changes_is_a_cause_of_what_changes_then(name: str) -> None:
    steps = np.arange(0, 3001, 25)
    fall = np.where(steps > 1500, 0.3 * (1 - np.exp((1500 - steps) / 100)), 0)
    loss = 1.8 + 2.2 * (1 + steps / 60) ** -0.5 - fall + 0.02 * np.random.default_rng(1).standard_normal(len(steps))
    at, before = (find_stages(read_log({"step": steps, "loss": loss, name: np.where(steps > when, 64, 32)}))
                  for when in (1500, 600))  # fmt: skip
    assert (at.causes, len(at)) == ({f"{name}'s rise to 64": 1512}, 1)
    assert (before.causes, len(before)) == ({f"{name}'s rise to 64": 612}, 2)


def test_settings_that_stay_or_change_all_the_time_are_no_causes() -> None:
    steps = np.arange(0, 3001, 25)
    table = read_log(
        {
            "step": steps,
            "loss": 3.0 - steps / 3000,
            "batch_size": [32] * 121,
            "temperature": 1 - steps / 4000,
            "config/batch_size": np.where(steps > 1500, 64, 32),
        }
    )
    assert table["quantity"].unique().tolist() == ["loss"]
    assert causes_in(table) == {}


@pytest.mark.one_of(2)
@pytest.mark.parametrize("start", [2400, 2700])
def test_a_fall_in_a_cool_down_that_the_run_ends_in_is_explained_by_it(start: int) -> None:
    steps = np.arange(0, 3001, 25)
    part = np.clip((steps - start) / (3000 - start), 0, 1)
    noise = 0.01 * np.random.default_rng(1).standard_normal(len(steps))
    loss = 1.8 + 2.2 * (1 + steps / 60) ** -0.5 - 0.25 * part**0.8 + noise
    stages = find_stages(read_log({"step": steps, "loss": loss, "lr": 1e-3 * (1 - part)}))
    assert stages.causes == {"the learning rate's cool-down": (start, 3000)}
    assert len(stages) == 1
    jump = loss - np.where(steps > 1500, 1, 0)
    assert len(find_stages(read_log({"step": steps, "loss": jump, "lr": 1e-3 * (1 - part)}))) == 2


@pytest.mark.parametrize("hi", [0.1, 9.0])
def test_what_happened_after_half_of_a_transition_did_not_begin_it(hi: float) -> None:
    one = ONE._replace(times=TIMES + np.array([0, 0, hi - 0.1]))
    half = float(np.expm1(one.times[1, 0]))
    assert coincidence(one, {"a drop": half}, STEPS)
    assert not coincidence(one, {"a drop": 1.15 * half}, STEPS)


def test_of_several_causes_the_last_one_before_a_transition_is_named() -> None:
    begins = float(np.expm1(TIMES[0, 0]))
    causes = {"after": begins + 1, "long before": begins - 9, "before": begins - 5}
    assert coincidence(ONE, causes, STEPS) == "before"
    assert coincidence(ONE, {"later": begins + 9, "after": begins + 1}, STEPS) == "after"


@pytest.mark.parametrize(("effect", "counts"), [("symmetric", True), ("at once", False)])
def test_a_change_long_after_a_cause_counts_unless_it_began_at_once(effect: str, counts: bool) -> None:
    logistic = 1 / (1 + np.exp(-(np.log1p(LOGGED) - np.log(2400)) / 0.05))
    made = logistic if effect == "symmetric" else -np.expm1(-np.maximum(LOGGED - 2000, 0) / 400)
    accuracy = 0.1 + 0.6 * made + 0.01 * np.random.default_rng(0).standard_normal(len(LOGGED))
    onsets = find_onsets(read_log({"step": LOGGED, "accuracy": accuracy}), causes={"a resumption": 2000})
    assert onsets["onset"].tolist() == [counts]
    assert onsets["cause"].tolist() == ["a resumption"]
