"""Delays: by how many steps a transition comes later, from curves made by hand."""

import math

import numpy as np
import pandas as pd
import pytest

from stagewise.probes import AttentionTo, Loss
from stagewise.replay._delays import arrivals, delays, transitions
from stagewise.table import declare

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


@pytest.mark.parametrize("later", [-30.0, 0.0, 35.0])
@pytest.mark.parametrize("noise", [0.0, 15.0])
def test_a_planted_delay_lies_in_its_interval_and_shared_noise_cancels(later: float, noise: float) -> None:
    found = {each.what: each for each in delays(curves(100, noise), curves(100 + later, noise), 50)}
    attention = found["attention to previous"]
    assert attention.value == pytest.approx(later, abs=3)
    assert attention.lo <= later <= attention.hi
    assert attention.hi - attention.lo <= 30  # the checkpoints around both times, however the batch is resampled
    assert found["loss 0.5"].value == 0
    assert found["loss 0.9"].value == 0


@pytest.mark.parametrize(("end", "moving"), [(0.52, True), (0.95, False), (0.0, False)])
def test_what_has_not_come_is_on_its_way_unless_its_curve_has_stalled(end: float, moving: bool) -> None:
    table = curves(100, loss=60).query("probe == 'Loss'")
    slow = table.assign(value=np.linspace(1.0, end, len(STEPS)), resamples=None)
    half, _ = delays(table, slow, 20)
    assert math.isinf(half.value) == (end > 0.5)
    assert half.moving == moving


def test_a_transition_begins_at_a_checkpoint_before_it_comes() -> None:
    found = {each.what: each for each in arrivals(curves(100, loss=200))}
    for what, time, begins in [("attention to previous", 100, 90), ("loss 0.5", 200, 190)]:
        assert found[what].comes == pytest.approx(time, abs=2)
        assert found[what].begins == begins  # a tenth of a sigmoid of width 4 is nine steps before its middle
    assert set(found) == {"attention to previous", "loss 0.5", "loss 0.9"}


def shifted(time: float, offsets: np.ndarray) -> pd.DataFrame:
    """The run in which a loss falls from one to zero, up or down as a whole in each resample, and noise of its own."""
    table, noise = curves(1000, loss=time).query("probe == 'Loss'"), np.random.default_rng(int(time))
    draws = [value + offsets + noise.normal(size=len(offsets)) * 0.002 for value in table["value"]]
    return table.assign(resamples=draws)


def test_resamples_that_move_both_losses_up_or_down_leave_the_interval_as_narrow_as_the_checkpoints() -> None:
    offsets = np.random.default_rng(0).normal(size=200)  # as far as the whole fall
    for found in delays(shifted(150, offsets), shifted(180, offsets), 50):
        assert found.value == pytest.approx(30, abs=3)
        assert 10 <= found.lo <= 30 <= found.hi <= 50


def test_where_the_loss_of_many_resamples_does_not_fall_no_end_of_the_delay_is_known() -> None:
    table = shifted(150, np.zeros(40))
    rising = np.arange(40) < 10
    table["resamples"] = [np.where(rising, 1 - each, each) for each in table["resamples"]]
    half, _ = delays(table, table, 50)
    assert (half.value, half.lo, half.hi) == (0, -math.inf, math.inf)


def test_what_came_before_the_start_is_no_transition() -> None:
    half, most = transitions(curves(100), 120)
    assert half.what == "loss 0.5"
    assert most.what == "loss 0.9"
    assert (half.levels[0], most.levels[0]) == pytest.approx((0.5, 0.1), abs=1e-6)  # from one to zero


def test_a_converged_loss_that_creeps_on_has_no_transition() -> None:
    creeping = curves(100, loss=100)
    assert transitions(creeping, 110)  # seven hundredths of the fall are left
    assert float(creeping["value"].iloc[-10]) > float(creeping["value"].iloc[-1])
    assert transitions(creeping, 150) == []


def test_what_never_comes_is_later_than_the_last_step() -> None:
    (attention, *_) = delays(curves(100), curves(700), 50)
    assert (math.isinf(attention.value), math.isinf(attention.hi)) == (True, True)
    assert attention.lo == 300 - 110  # a little more than half of the way up lies between 100 and 110


def test_a_head_that_is_held_out_does_not_count() -> None:
    (attention, *_) = delays(curves(100), curves(100), 50, without=[(0, 0)])
    assert math.isinf(attention.value)
    (attention, *_) = delays(curves(100), curves(100, head=1), 50, without=[(0, 0)])
    assert attention.value == 0


def test_delays_of_probes_of_ones_own_with_these_roles_are_the_same() -> None:
    own = [curves(at, 15.0).assign(probe=lambda table: "Own" + table["probe"]) for at in (100, 130)]
    for table in own:
        declare(table, {f"Own{probe.__name__}": probe.quantities for probe in (Loss, AttentionTo)})
    assert delays(own[0], own[1], 50) == delays(curves(100, 15.0), curves(130, 15.0), 50) != []


def test_a_table_without_attention_and_loss_is_refused() -> None:
    with pytest.raises(ValueError, match="of attention or of the loss: measure either"):
        delays(curves(100).assign(probe="Accuracy"), curves(100), 50)


def test_a_level_that_the_loss_passed_before_the_start_and_lost_again_counts_from_the_start_on() -> None:
    def dipping(at: float) -> pd.DataFrame:
        table = curves(1000, loss=at)
        early = (table["probe"] == "Loss") & table["step"].between(20, 40)
        table.loc[early, "value"] = 0.05
        table.loc[early, "resamples"] = pd.Series([np.full(40, 0.05)] * 3, index=table.index[early])
        return table

    half, most = delays(dipping(150), dipping(200), 100)
    assert (half.value, most.value) == pytest.approx((50, 50), abs=5)
    assert 30 <= half.lo <= 50 <= half.hi <= 70


def test_where_the_only_head_is_held_no_head_attends_any_more() -> None:
    one = curves(100).query("head == 0 or probe == 'Loss'")
    (attention, *_) = delays(one, one, 50, without=[(0, 0)])
    assert (attention.what, attention.value) == ("attention to previous", math.inf)
    assert attention.lo == 300 - 110
