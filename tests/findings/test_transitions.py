"""Transitions: one for each period of change, at the median of its onsets; turning points and onsets in one order."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import pytest

from stagewise.checkpoints.logged_curves import read_log
from stagewise.findings._transitions import RunTransition, transitions_of, with_stages
from stagewise.findings.crossings import Crossing
from stagewise.findings.stages import Stages, find_stages
from stagewise.table import Quantity
from stagewise.words.stages import summaries

Curves = Callable[..., pd.DataFrame]

STEPS = np.arange(0, 10_001, 2)


def onsets(times: Sequence[float] | np.ndarray, error: float = 0.05, probe: str = "Own") -> pd.DataFrame:
    """Return sharp onsets of heads at these steps, with an error of so many e-folds to either side."""
    t50 = np.asarray(times, dtype=float)
    of = {
        "probe": probe,
        "quantity": "q",
        "relation": None,
        "onset": True,
        "verdict": "onset",
        "before": 0.0,
        "after": 1.0,
    }
    ends = {"t50_lo": t50 * np.exp(-error), "t50_hi": t50 * np.exp(error)}
    heads = {"head": np.arange(len(t50))}
    return pd.DataFrame({**heads, **{"t10": t50, "t50": t50, "t90": t50}, **ends}).assign(**of)


@pytest.mark.parametrize(("first", "second"), [(0, 100), (512, 1000), (5000, 6000), (250_000, 300_000)])
def test_a_transition_within_a_gap_has_the_checkpoints_at_its_ends_as_interval(first: int, second: int) -> None:
    before, after = np.linspace(0, first, 12 if first else 1), np.linspace(second, 3 * second, 13)
    steps = np.unique(np.concatenate([before, after]).round().astype(int))
    table = read_log({"step": steps, "accuracy": np.where(steps > first, 0.9, 0.1)})
    row = find_stages(table).table.iloc[1]
    assert (row["start_lo"], row["start_hi"]) == (first, second)


def placed(
    frame: pd.DataFrame, boundaries: Sequence[RunTransition] = (), taken_over: Sequence[Crossing] = ()
) -> list[RunTransition]:
    quantities = {"OfWeights": {"q": Quantity("copying", weights=True)}}
    return transitions_of(frame, boundaries, STEPS, quantities, taken_over=taken_over)


def found(frame: pd.DataFrame) -> list[list[float]]:
    """The times of the onsets of each transition."""
    return [sorted(frame.loc[list(one.onsets), "t50"]) for one in placed(frame)]


def happened(stages: Stages) -> list[str]:
    """What is said of each stage."""
    return summaries(stages)


def test_two_heads_at_different_times_are_two_stages_in_order(attention: pd.DataFrame) -> None:
    stages = find_stages(attention)
    table = stages.table
    assert table["stage"].tolist() == [1, 2, 3]
    first, early, late = happened(stages)
    assert first == "before the first onset"
    assert early.startswith("L0H1 becomes a previous-token head (0.0")
    assert late.startswith("L1H1 becomes an induction head (0.0")
    for row, at in zip(table.iloc[1:].to_dict("records"), (130, 500), strict=True):
        assert row["start_lo"] <= at <= row["start_hi"]


def test_onsets_that_cannot_be_told_apart_are_one_stage(step_up: Curves) -> None:
    of = {"probe": "AttentionTo", "quantity": "mass", "relation": "induction", "layer": 0}
    stages = find_stages(pd.concat([step_up(200, head=0, **of), step_up(201, head=1, **of)]))
    assert len(stages) == 2
    assert happened(stages)[1].count("becomes an induction head") == 2


def test_the_times_of_a_stage_are_the_medians_of_its_onsets(attention: pd.DataFrame) -> None:
    stages = find_stages(attention)
    onsets = stages.onsets
    assert onsets.loc[onsets["onset"], "starts_stage"].tolist() == [2, 3]
    early = stages.table.iloc[1]
    assert early[["t10", "t50", "t90"]].tolist() == pytest.approx(list(onsets.loc[0, ["t10", "t50", "t90"]]), abs=0.05)


def test_without_any_onset_all_is_one_stage(attention: pd.DataFrame) -> None:
    stages = find_stages(attention[attention["head"] == 0])
    assert stages.table[["start", "end"]].to_numpy().tolist() == [[0, 3000]]
    assert stages.onsets["starts_stage"].isna().all()
    assert happened(stages) == ["no onset in 1 score"]


def test_a_boundary_lies_between_the_medians_of_the_ends_of_its_onsets_intervals() -> None:
    ends = {"t50_lo": [90.0, 102, 95, 290], "t50_hi": [110.0, 130, 180, 310]}
    frame = onsets([100, 110, 125, 300]).assign(**ends)
    assert [one.edge for one in placed(frame)] == [(110, 95, 130), (300, 290, 310)]


@pytest.mark.parametrize(("second", "edge", "spread"), [(10.0, (6, 1, 14), True), (2.4, (2, 1, 3), False)])
def test_the_interval_of_two_times_that_are_apart_is_from_the_first_to_the_last(
    second: float, edge: tuple[int, int, int], spread: bool
) -> None:
    frame = onsets([2, second], 0.3).assign(t10=0.5, t90=20.0)  # both are under way at once
    (one,) = placed(frame)
    assert (one.edge, one.spread) == (edge, spread)


@pytest.mark.parametrize(
    ("verdict", "quantity", "ends"),
    [("steady", "q", (490, 710)), ("small", "q", (590, 610)), ("steady", "r", (590, 610))],
)
def test_curves_that_moved_at_an_unknown_time_widen_the_interval_of_those_one_after_another(
    verdict: str, quantity: str, ends: tuple[int, int]
) -> None:
    t50 = np.arange(200.0, 1001, 100)
    frame = onsets(t50).assign(t50_lo=t50 - 10, t50_hi=t50 + 10, relation="induction")
    without = frame.head(2).assign(onset=False, verdict=verdict, quantity=quantity)
    (one,) = placed(pd.concat([frame, without], ignore_index=True))
    assert (one.lo, one.hi, one.spread) == (*ends, True)


def test_heads_one_after_another_are_one_stage_and_it_says_so(step_up: Curves) -> None:
    of = {"probe": "AttentionTo", "quantity": "mass", "relation": "induction", "layer": 0}
    heads = [step_up(at, head=head, **of) for head, at in enumerate(range(200, 1000, 100))]
    stages = find_stages(pd.concat(heads))
    _, stage = stages.table.to_dict("records")
    assert happened(stages)[0] == "up to half of the onsets"  # the first ones lie before its end
    assert happened(stages)[1].startswith("one after another, steps ")
    assert happened(stages)[1].count("becomes an induction head") == 8
    assert stage["start_lo"] <= 550 <= stage["start_hi"]


def test_the_interval_of_a_boundary_between_two_steps_is_rounded_outwards() -> None:
    (one,) = placed(onsets([3.7]).assign(t10=3.2, t90=4.0, t50_lo=3.4, t50_hi=3.9))
    assert one.edge == (4, 3, 4)


def test_onsets_whose_intervals_overlap_share_a_time() -> None:
    assert found(onsets([300, 1000, 310, 290])) == [[290, 300, 310], [1000]]


def test_without_onsets_there_is_no_transition() -> None:
    assert found(onsets([])) == []


def test_a_wide_interval_joins_the_nearest_time_and_makes_no_two_times_one() -> None:
    wide = onsets([1500]).assign(head=9, t50_lo=250.0, t50_hi=4000.0)
    frame = pd.concat([onsets([300, 305, 3000, 3010]), wide], ignore_index=True)
    assert found(frame) == [[300, 305], [1500, 3000, 3010]]
    assert [one.edge for one in placed(frame)] == [one.edge for one in placed(frame.iloc[:4])]


def test_intervals_that_overlap_one_after_another_share_a_time() -> None:
    assert found(onsets([300, 320, 341, 364, 388])) == [[300, 320, 341, 364, 388]]


@pytest.mark.parametrize(("later", "one"), [(1250, True), (1700, False)])
def test_one_event_seen_by_two_curves_is_one_transition_where_both_are_under_way(later: float, one: bool) -> None:
    loss, accuracy = onsets([1191, later], 0.001), {"t10": [900.0, later * 0.9], "t90": [1500.0, later * 1.1]}
    assert (len(placed(loss.assign(**accuracy))) == 1) == one


@pytest.mark.parametrize(
    ("width", "expected"), [(0.12, [[1500, 1700, 1710, 1900]]), (0.01, [[1500], [1700, 1710], [1900]])]
)
def test_a_loss_that_rises_and_is_back_while_others_are_under_way_is_of_their_transition(
    width: float, expected: list[list[float]]
) -> None:
    t50 = np.array([1500.0, 1900, 1700, 1710])
    frame = onsets(t50, 0.005).assign(
        head=np.nan, quantity=["loss", "loss", "a", "b"], before=[0.0, 1, 0, 0], after=[1.0, 0, 1, 1],
        t10=t50 * np.exp([0, 0, -width, -width]), t90=t50 * np.exp([0, 0, width, width]),
    )  # fmt: skip
    assert found(frame) == expected
    assert {one.step for one in placed(frame)} >= {1705}


def test_where_another_reference_becomes_the_closest_is_a_transition_or_joins_the_one_under_way() -> None:
    over = [Crossing("unigram", "bigram", 290, 310), Crossing("bigram", "trigram", 1980, 2020)]
    joined, alone = placed(onsets([300]), taken_over=over)
    assert (joined.onsets, joined.closest, alone.onsets, alone.closest) == ((0,), "bigram", (), "trigram")
    assert alone.edge == (2000, 1980, 2020)
    assert [one.closest for one in placed(onsets([]), taken_over=over)] == ["bigram", "trigram"]


def test_an_onset_that_is_not_over_overlaps_what_comes_later_alone() -> None:
    assert found(onsets([300, 3000]).assign(t50_hi=[310.0, np.inf])) == [[300], [3000]]


@pytest.mark.parametrize("number", [2, 3, 5])
def test_a_few_times_are_a_transition_each(number: int) -> None:
    assert len(found(onsets(np.geomspace(300, 3000, number)))) == number


def test_many_times_evenly_one_after_another_are_one_transition() -> None:
    (one,) = placed(onsets(np.geomspace(300, 3000, 14)))
    assert (len(one.onsets), one.spread) == (14, True)


def test_a_time_of_several_onsets_before_an_even_sequence_stays_apart() -> None:
    assert [len(each) for each in found(onsets([*[100.0] * 7, *np.geomspace(1000, 8000, 9)]))] == [7, 9]


def test_six_times_of_several_onsets_each_are_transitions_even_where_they_lie_evenly() -> None:
    assert len(found(onsets(np.repeat(np.geomspace(20, 8000, 6), 3)))) == 6


def test_the_order_of_the_rows_does_not_matter() -> None:
    frame = onsets([*[100.0, 103.0, 99.0], *np.geomspace(1000, 8000, 9)])
    assert found(frame.sample(frac=1, random_state=0)) == found(frame)


LEFT = RunTransition(200, 150, 250, left="one", begins=200.0, times={"t10": 220.0, "t50": 300.0, "t90": 400.0})


def test_an_onset_during_the_fall_after_a_turning_point_is_of_its_transition_and_one_before_of_the_first_stage() -> (
    None
):
    frame = onsets([40, 310, 2000])
    left, late = placed(frame, [LEFT])
    assert (left.left, left.edge, left.onsets, late.left, late.onsets) == ("one", LEFT.edge, (1,), "", (2,))


def test_a_head_that_changes_by_little_is_a_transition_with_a_larger_change_alone() -> None:
    quantities = {"Own": {"q": Quantity("share", range=(0, 1))}}
    frame = onsets([300, 305, 2000]).assign(after=[0.5, 0.15, 0.15])
    assert [one.onsets for one in transitions_of(frame, [], STEPS, quantities)] == [(0, 1)]
    assert len(transitions_of(frame.assign(head=np.nan), [], STEPS, quantities)) == 2


def test_a_curve_has_one_onset_in_a_transition_and_a_direction_the_sharpest() -> None:
    frame = onsets([2100, 2150, 2600], 0.02).assign(head=[0, 1, 1], t90=[2200.0, 2300, 4000], t10=[2000.0, 2000, 1300])
    (one,) = found_in = placed(frame)
    kept = with_stages(frame, found_in)
    assert (len(one.onsets), kept["t50"].tolist(), kept["transition"].tolist()) == (3, [2100, 2150], [1, 1])
    assert one.step == 2125


def test_a_small_onset_does_not_stand_for_a_larger_one_of_its_curve() -> None:
    frame = onsets([2100, 2150, 2600], 0.02).assign(after=[1.0, 0.4, 1.0], head=[0, 1, 1])
    frame = frame.assign(t90=[2200.0, 2300, 4000], t10=[2000.0, 2000, 1300])
    assert with_stages(frame, placed(frame))["t50"].tolist() == [2100, 2600]


def test_what_is_read_from_weights_alone_joins_a_transition_and_is_none() -> None:
    weights = onsets([160, 2000], probe="OfWeights")
    frame = pd.concat([onsets([2010]), weights], ignore_index=True)
    (one,) = placed(frame)
    assert (one.step, one.onsets) == (2010, (0, 2))
    assert placed(weights) == []


@pytest.mark.one_of(4)
@pytest.mark.parametrize("seed", range(8))
def test_more_evidence_never_removes_a_transition_nor_moves_one_out_of_its_interval(seed: int) -> None:
    g = np.random.default_rng(seed)
    planted = np.sort(np.exp(g.uniform(np.log(100), np.log(9000), 4)).round())
    planted = planted[np.append(True, np.diff(np.log(planted)) > 0.5)]
    times = planted[np.append(np.arange(len(planted)), g.integers(0, len(planted), 12))]
    frame = onsets(times * np.exp(0.02 * g.standard_normal(len(times))))
    before: list[RunTransition] = []
    for number in range(1, len(frame) + 1):
        after = placed(frame.iloc[:number])
        assert all(any(old.lo <= new.step <= old.hi for new in after) for old in before)
        assert len(after) >= len(before)
        before = after
    assert len(before) == len(planted)


@pytest.mark.parametrize(("number", "counted"), [(1, "with 1 checkpoint no"), (9, "with 9 checkpoints no")])
def test_too_few_checkpoints_are_counted(number: int, counted: str) -> None:
    found = find_stages(read_log({"step": range(number), "loss": np.linspace(3, 1, number)}))
    assert f"no stages can be found: {counted} onset" in str(found)
