"""Delays: by how many steps a transition of the answer comes later, from curves made by hand."""

import math
from collections.abc import Collection

import numpy as np
import pandas as pd
import pytest

from stagewise.findings.stages import Stages, find_stages
from stagewise.probes import AttentionTo, Loss
from stagewise.replay._delays import Delay, Transition, delays, transitions
from stagewise.table import Head, declare

STEPS = np.arange(0, 310, 10)


def curves(
    time: float, noise: float = 0.0, *, other: float = 400.0, head: int = 0, loss: float = 200.0
) -> pd.DataFrame:
    """A run in which a head attends to "previous" from a step on, another one to "first", and the loss falls."""
    draws = np.random.default_rng(0).normal(size=(40, 1)) * noise

    def rows(of: dict[str, object], at: float, sign: int) -> pd.DataFrame:
        curve = 1 / (1 + np.exp(-(STEPS - at - np.vstack([[0.0], draws])) / 4))
        curve = curve if sign > 0 else 1 - curve
        known = {"run": "r", "step": STEPS, "value": curve[0], "resamples": list(curve[1:].T)}
        return pd.DataFrame({**known, **of})

    mass = {"probe": "AttentionTo", "quantity": "mass", "layer": 0}
    parts = [
        rows({**mass, "head": head, "relation": "previous"}, time, 1),
        rows({**mass, "head": 1 - head, "relation": "previous"}, 1000, 1),
        rows({**mass, "head": head, "relation": "first"}, 1000, 1),
        rows({**mass, "head": 1 - head, "relation": "first"}, other, 1),
        rows({"probe": "Loss", "quantity": "cross_entropy"}, loss, -1),
    ]
    return pd.concat(parts, ignore_index=True)


@pytest.fixture(scope="module")
def answer() -> Stages:
    """The answer of the run whose head attends at step 100, and whose loss falls at step 200."""
    return find_stages(curves(100))


def compared(
    answer: Stages, run: pd.DataFrame, other: pd.DataFrame, start: int = 50, without: Collection[Head] = ()
) -> dict[str, Delay]:
    """The delays of a run's transitions in another one."""
    found = delays(transitions(answer, run, start), run, other, start, without)
    return {each.transition: each for each in found}


def test_transitions_are_the_answers_by_number_with_the_curve_that_shows_each(answer: Stages) -> None:
    attention, loss = transitions(answer, curves(100), 0)
    assert (attention.event, attention.label, attention.relation) == (1, "attention to previous", "previous")
    assert (loss.event, loss.label, loss.relation) == (2, "transition 2", None)
    for one, time, begins in [(attention, 100, 80), (loss, 200, 180)]:
        assert one.comes == pytest.approx(time, abs=2)
        assert one.begins == begins  # the last checkpoint before any of a sigmoid of width 4
        assert one.comes == pytest.approx(answer.table["t50"].iloc[one.event], abs=1)
    assert (attention.levels[0], -loss.levels[0]) == pytest.approx((0.5, 0.5), abs=0.02)


def test_a_transition_that_the_answer_does_not_name_is_none(answer: Stages) -> None:
    assert transitions(None, curves(100), 0) == []
    assert transitions(find_stages(curves(1000, loss=1000)), curves(100), 0) == []


@pytest.mark.parametrize("later", [-30.0, 0.0, 35.0])
@pytest.mark.parametrize("noise", [0.0, 15.0])
def test_a_planted_delay_lies_in_its_interval_and_shared_noise_cancels(
    later: float, noise: float, answer: Stages
) -> None:
    found = compared(answer, curves(100, noise), curves(100 + later, noise))
    attention = found["attention to previous"]
    assert attention.value == pytest.approx(later, abs=3)
    assert attention.lo <= later <= attention.hi
    assert attention.hi - attention.lo <= 30  # the checkpoints around both times, however the batch is resampled
    assert found["transition 2"].value == 0


@pytest.mark.parametrize(("end", "moving"), [(0.45, False), (0.52, True), (0.95, False)])
def test_what_has_not_come_is_on_its_way_unless_its_curve_has_stalled(end: float, moving: bool, answer: Stages) -> None:
    table = curves(100).query("probe == 'Loss'")
    slow = table.assign(value=np.linspace(1.0, end, len(STEPS)), resamples=None)
    half = compared(answer, table, slow)["transition 2"]
    assert math.isinf(half.value) == (end > 0.5)
    assert half.moving == moving


def shifted(time: float, offsets: np.ndarray) -> pd.DataFrame:
    """The run in which a loss falls from one to zero, up or down as a whole in each resample, and noise of its own."""
    table, noise = curves(1000, loss=time).query("probe == 'Loss'"), np.random.default_rng(int(time))
    draws = [value + offsets + noise.normal(size=len(offsets)) * 0.002 for value in table["value"]]
    return table.assign(resamples=draws)


def test_resamples_that_move_both_losses_up_or_down_leave_the_interval_as_narrow_as_the_checkpoints(
    answer: Stages,
) -> None:
    offsets = np.random.default_rng(0).normal(size=200)  # as far as the whole fall
    (found,) = compared(answer, shifted(200, offsets), shifted(230, offsets)).values()
    assert found.value == pytest.approx(30, abs=3)
    assert 10 <= found.lo <= 30 <= found.hi <= 50


def test_where_the_loss_of_many_resamples_does_not_fall_no_end_of_the_delay_is_known(answer: Stages) -> None:
    table = shifted(200, np.zeros(40))
    rising = np.arange(40) < 10
    table["resamples"] = [np.where(rising, 1 - each, each) for each in table["resamples"]]
    (half,) = compared(answer, table, table).values()
    assert (half.value, half.lo, half.hi) == (0, -math.inf, math.inf)


def test_what_came_before_the_start_is_no_transition_after_it(answer: Stages) -> None:
    assert [one.event for one in transitions(answer, curves(100), 120)] == [2]
    assert transitions(answer, curves(100), 230) == []


def test_a_transition_in_which_the_loss_creeps_is_not_shown_by_it(answer: Stages) -> None:
    early = curves(100, loss=30)
    labels = [one.label for one in transitions(answer, early, 0)]
    assert labels == ["attention to previous"]
    assert early.query("probe == 'Loss'")["value"].is_monotonic_decreasing


def test_what_never_comes_is_later_than_the_last_step(answer: Stages) -> None:
    attention = compared(answer, curves(100), curves(700))["attention to previous"]
    assert (math.isinf(attention.value), math.isinf(attention.hi)) == (True, True)
    assert attention.lo in (300 - 110, 300 - 100)  # half of the way up is at 100


def test_where_it_does_not_come_in_the_run_beside_it_nothing_is_known(answer: Stages) -> None:
    after = [one for one in transitions(answer, curves(100), 50) if one.relation]
    (late,) = delays(after, curves(700), curves(100), 50)
    assert math.isnan(late.value)
    assert late.lo == -math.inf
    (neither,) = delays(after, curves(700), curves(700), 50)
    assert (neither.lo, neither.hi) == (-math.inf, math.inf)


def test_a_head_that_is_held_out_does_not_count(answer: Stages) -> None:
    held = compared(answer, curves(100), curves(100), without=[(0, 0)])["attention to previous"]
    assert math.isinf(held.value)
    taken_over = compared(answer, curves(100), curves(100, head=1), without=[(0, 0)])["attention to previous"]
    assert taken_over.value == 0


def test_delays_of_probes_of_ones_own_with_these_roles_are_the_same(answer: Stages) -> None:
    own = [curves(at, 15.0).assign(probe=lambda table: "Own" + table["probe"]) for at in (100, 130)]
    for table in own:
        declare(table, {f"Own{probe.__name__}": probe.quantities for probe in (Loss, AttentionTo)})
    assert compared(answer, own[0], own[1]) == compared(answer, curves(100, 15.0), curves(130, 15.0)) != {}


def test_a_table_without_attention_and_loss_shows_none(answer: Stages) -> None:
    assert transitions(answer, curves(100).assign(probe="Accuracy"), 50) == []


def test_a_level_that_the_loss_passed_before_the_start_and_lost_again_counts_from_the_start_on(answer: Stages) -> None:
    def dipping(at: float) -> pd.DataFrame:
        table = curves(1000, loss=at)
        early = (table["probe"] == "Loss") & table["step"].between(20, 40)
        table.loc[early, "value"] = 0.05
        table.loc[early, "resamples"] = pd.Series([np.full(40, 0.05)] * 3, index=table.index[early])
        return table

    half = compared(answer, dipping(200), dipping(250), 100)["transition 2"]
    assert half.value == pytest.approx(50, abs=5)
    assert 30 <= half.lo <= 50 <= half.hi <= 70


def test_where_the_only_head_is_held_no_head_attends_any_more(answer: Stages) -> None:
    one = curves(100).query("head == 0 or probe == 'Loss'")
    attention = compared(answer, one, one, without=[(0, 0)])["attention to previous"]
    assert attention.value == math.inf
    assert attention.lo in (300 - 110, 300 - 100)


def test_a_relation_that_two_transitions_share_is_shown_in_each_of_them_by_its_own_level() -> None:
    def rising(first: float, second: float) -> pd.DataFrame:
        one, two = (curves(at).query("relation == 'previous' and head == 0") for at in (first, second))
        return one.assign(value=(one["value"] + two["value"].to_numpy()) / 2, resamples=None)

    run = rising(60, 200)
    found: list[Transition] = transitions(find_stages(run), run, 0)
    assert [(one.event, one.label) for one in found] == [(1, "attention to previous"), (2, "attention to previous")]
    assert [float(one.levels[0]) for one in found] == pytest.approx([0.25, 0.75], abs=0.05)
    assert [each.value for each in delays(found, run, rising(60, 230), 0)] == pytest.approx([0, 30], abs=3)
