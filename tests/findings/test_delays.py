"""Delays: by how many steps a transition comes later, from curves made by hand."""

import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from stagewise.findings._roles import paired_roles
from stagewise.findings.delays import arrivals, compare_stages, delays, find_delays, transitions
from stagewise.findings.stages import Stages, find_stages
from stagewise.probes import AttentionTo, Loss
from stagewise.table import declare
from stagewise.words._delays import names

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


def test_delays_over_seeds_have_students_interval_and_count_what_never_came() -> None:
    values = {0: [10.0, 20.0], 1: [30.0], 2: [np.inf]}  # two heads of one role in the first seed
    rows = pd.DataFrame([{"seed": seed, "value": value} for seed, each in values.items() for value in each])
    (line,) = find_delays(rows.assign(transition="the loss falls", without="a head")).to_dict("records")
    half = 12.706 * np.std([15, 30], ddof=1) / np.sqrt(2)
    assert (line["seeds"], line["never"], line["mean"]) == (3, 1, 22.5)
    assert (line["lo"], line["hi"]) == pytest.approx((22.5 - half, 22.5 + half), rel=1e-4)


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


StepUp = Callable[..., pd.DataFrame]


def run(step_up: StepUp, name: str, times: dict[str, float], heads: tuple[int, int]) -> pd.DataFrame:
    """A run of two heads, each of which attends to one relation from a step on; at 5000, never."""
    of = {"probe": "AttentionTo", "quantity": "mass", "layer": 0}
    rows = [
        step_up(at, by=0.7 if head == place and at < 3000 else 0.0, relation=relation, head=place, **of)
        for head, (relation, at) in zip(heads, times.items(), strict=True)
        for place in (0, 1)
    ]
    return pd.concat(rows, ignore_index=True).assign(run=name)


@pytest.fixture(scope="module")
def runs(step_up: StepUp) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The second run's heads have each other's indices; one relation comes 300 steps later, one not at all."""
    return (
        run(step_up, "first", {"previous token": 130, "induction": 500}, (0, 1)),
        run(step_up, "second", {"previous token": 430, "induction": 5000}, (1, 0)),
    )


@pytest.fixture(scope="module")
def stages(runs: tuple[pd.DataFrame, pd.DataFrame]) -> tuple[Stages, Stages]:
    return find_stages(runs[0]), find_stages(runs[1])


def test_an_event_of_both_runs_is_later_by_the_planted_steps(
    runs: tuple[pd.DataFrame, pd.DataFrame], stages: tuple[Stages, Stages]
) -> None:
    found = compare_stages(*stages, paired_roles(pd.concat(runs, ignore_index=True)))
    [row] = found.shared.to_dict("records")
    assert "L0H0 (in second L0H1) attends" in names(found)[row["event"]]
    assert "previous token" in names(found)[row["event"]]
    assert row["later_lo"] <= 300 <= row["later_hi"]
    assert row["later_lo"] > 0
    alone = found.events[found.events["later"].isna()]
    assert alone["other"].isna().all()
    assert {dict(found.catalogue[event].labels)["relation"] for event in alone["event"]} == {"induction"}
    [last] = str(found).splitlines()[1:]
    assert last.endswith(f": at step {alone['step'].item():.0f} in first, no such {alone['kind'].item()} in second")
    assert f"{row['later']:.0f} [{row['later_lo']:.0f}, {row['later_hi']:.0f}] steps later" in str(found)


@pytest.mark.slow
def test_of_a_run_of_too_few_checkpoints_it_is_not_said_that_something_did_not_come(
    runs: tuple[pd.DataFrame, pd.DataFrame], stages: tuple[Stages, Stages]
) -> None:
    few = runs[1][runs[1]["step"].isin(sorted(runs[1]["step"].unique())[::12])]
    first, second = stages[0], find_stages(few)
    found = compare_stages(first, second, paired_roles(pd.concat([runs[0], few], ignore_index=True)))
    sentence, *events = str(found).splitlines()
    assert sentence.startswith("in second no stages can be found: with ")
    assert len(events) == 2
    assert all(event.endswith(" in first, not known in second") for event in events)
    other = few.assign(run="other")
    neither = compare_stages(second, find_stages(other), paired_roles(pd.concat([few, other])))
    assert [line.partition(":")[0] for line in str(neither).splitlines()] == [
        "in second no stages can be found",
        "in other no stages can be found",
    ]


def test_heads_have_their_names_in_both_runs_and_pairs_that_are_not_sure_are_said_to_be(step_up: StepUp) -> None:
    of = {"probe": "AttentionTo", "quantity": "mass", "layer": 0, "relation": "induction"}
    both = [
        pd.concat([step_up(at, by=0.7, head=head, **of) for head, at in enumerate(times)]).assign(run=name)
        for name, times in (("first", (130, 600)), ("second", (130, 600, 1200)))
    ]
    roles = paired_roles(pd.concat(both))
    first, second = map(find_stages, both)
    found = compare_stages(first, second, roles)
    heads = [names(found)[event].partition(" attends")[0] for event in found.events["event"]]
    assert heads == ["L0H0", "L0H1", "L0H2 of second"]
    moved = roles.assign(distance=[float("nan"), float("nan"), 0.9, 0.1, float("nan")])
    found = compare_stages(first, second, moved)
    first_event, second_event = (names(found)[event] for event in found.events["event"][:2])
    assert first_event.startswith("L0H0 (in second perhaps L0H0) attends")
    assert second_event.startswith("L0H1 attends")


def test_the_other_order_turns_the_signs(
    runs: tuple[pd.DataFrame, pd.DataFrame], stages: tuple[Stages, Stages]
) -> None:
    first, second = stages
    there = compare_stages(first, second, paired_roles(pd.concat(runs))).shared.iloc[0]
    back = compare_stages(second, first, paired_roles(pd.concat(runs[::-1]))).shared.iloc[0]
    assert (back["later"], back["later_lo"], back["later_hi"]) == (
        -there["later"],
        -there["later_hi"],
        -there["later_lo"],
    )


def test_a_run_against_itself_differs_in_nothing(
    runs: tuple[pd.DataFrame, pd.DataFrame], stages: tuple[Stages, Stages]
) -> None:
    again, first = runs[0].assign(run="again"), stages[0]
    found = compare_stages(first, find_stages(again), paired_roles(pd.concat([runs[0], again])))
    assert found.shared["later"].tolist() == [0.0] * len(found.events)
    assert str(found).count("which is earlier cannot be told: 0 [") == len(found.events)
    with pytest.raises(ValueError, match="runs of different names"):
        compare_stages(first, first, found.roles)


@pytest.mark.slow
def test_of_several_rises_those_nearest_to_each_other_correspond(step_up: StepUp) -> None:
    of = {"probe": "AttentionTo", "quantity": "mass", "layer": 0, "head": 0, "relation": "induction"}
    late = step_up(600, by=0.4, **of)
    both = late.assign(value=late["value"] + step_up(40, by=0.4, **of)["value"])
    runs = [both.assign(run="two rises"), late.assign(run="one rise")]
    first, second = map(find_stages, runs)
    found = compare_stages(first, second, paired_roles(pd.concat(runs)))
    assert [names(found)[event].endswith("(number 2)") for event in found.events["event"]] == [False, True]
    assert found.events["later"].isna().tolist() == [True, False]
    assert found.shared["later_lo"].item() <= 0 <= found.shared["later_hi"].item()
