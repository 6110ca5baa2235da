"""Alarms: each kind is raised by what it names, and by nothing that goes well."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest

from stagewise.checkpoints.logged_curves import read_log
from stagewise.findings.alarms import AlarmKind, alarms_of
from stagewise.findings.stages import find_stages

STEPS = np.arange(0, 2000, 20)
NOISE = 0.01 * np.random.default_rng(0).standard_normal(len(STEPS))
FALLS = 1 + 3 * (1 + STEPS / 50.0) ** -0.7 + NOISE


def raised(curves: Mapping[str, Any], expected: Mapping[str, int] | None = None) -> list[tuple[str, float]]:
    table = read_log({"step": STEPS, **curves})
    return [(str(one.kind), one.step) for one in alarms_of(table, find_stages(table), expected)]


def test_a_loss_that_falls_raises_none_nor_does_overfitting() -> None:
    assert raised({"train_loss": FALLS, "val_loss": FALLS + 0.1}) == []
    assert raised({"train_loss": FALLS, "val_loss": FALLS + (STEPS / 1000.0) ** 2}) == []


def test_a_loss_that_rises_for_long_diverges_from_its_minimum_on() -> None:
    ((kind, step),) = raised({"loss": FALLS + 2 * np.clip((STEPS - 1000) / 1000, 0, None)})
    assert kind == AlarmKind.DIVERGES
    assert 800 <= step <= 1200


def test_nan_to_the_end_is_told_from_its_first_step_also_where_a_trainer_writes_zero() -> None:
    gone = np.where(STEPS < 1400, FALLS, np.nan)
    assert raised({"loss": gone}) == [(AlarmKind.NOT_FINITE, 1400)]
    with pytest.warns(UserWarning, match="as a trainer writes nan"):
        assert raised({"loss": np.nan_to_num(gone)}) == [(AlarmKind.NOT_FINITE, 1400)]


def test_an_event_is_missing_where_it_did_not_come_by_its_step() -> None:
    accuracy = 0.1 + 0.8 / (1 + np.exp(-(STEPS - 1000) / 40.0)) + NOISE
    assert raised({"accuracy": accuracy}, {"accuracy": 1500}) == []
    assert raised({"accuracy": accuracy}, {"Accuracy": 800}) == [(AlarmKind.MISSING, 800)]
    assert raised({"accuracy": accuracy}, {"induction": 9000}) == []  # the run has not come there


def test_a_head_that_loses_what_it_learned_dies(one_onset: pd.DataFrame) -> None:
    assert [one.kind for one in alarms_of(one_onset, find_stages(one_onset))] == []
    steps = np.sort(one_onset["step"].unique())
    middle = steps[steps > 300][0]
    rises = one_onset["value"].max() - one_onset["value"].min()
    falls = one_onset.assign(
        value=one_onset["value"].where(one_onset["step"] < middle, one_onset["value"].min() + 0.02 * rises)
    )
    kinds = {one.kind for one in alarms_of(falls, find_stages(falls))}
    assert AlarmKind.DIES in kinds
