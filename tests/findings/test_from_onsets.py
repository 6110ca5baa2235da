"""Stages between onsets: one for each period of change, at the median of its onsets."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from stagewise.checkpoints.logged_curves import read_log
from stagewise.findings.from_onsets import onset_stages
from stagewise.findings.onsets import find_onsets
from stagewise.findings.stages import Stages, find_stages
from stagewise.words.stages import summaries

Curves = Callable[..., pd.DataFrame]


def happened(stages: Stages) -> list[str]:
    """What is said of each stage."""
    return summaries(stages.table, stages.events, stages.onsets, stages.context)


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
    onsets = find_onsets(attention)
    (_, early, _), placed = onset_stages(onsets, 0, 3000)
    assert placed.loc[placed["onset"], "starts_stage"].tolist() == [2, 3]
    assert [early[name] for name in ("t10", "t50", "t90")] == pytest.approx(
        list(onsets.loc[0, ["t10", "t50", "t90"]]), abs=0.05
    )


def test_without_any_onset_all_is_one_stage(attention: pd.DataFrame) -> None:
    never = find_onsets(attention[attention["head"] == 0])
    (row,), placed = onset_stages(never, 0, 3000)
    assert (row["start"], row["end"]) == (0, 3000)
    assert placed["starts_stage"].isna().all()
    assert happened(find_stages(attention[attention["head"] == 0])) == ["no onset in 1 score"]


def test_a_boundary_lies_between_the_medians_of_the_ends_of_its_onsets_intervals() -> None:
    times = {"t50": [100.0, 110, 125, 300], "t50_lo": [90.0, 102, 95, 290], "t50_hi": [110.0, 130, 180, 310]}
    onsets = pd.DataFrame({"onset": True, "before": 0.0, "after": 1.0, **times})
    own = onsets.assign(probe="Own", quantity="q", t10=onsets["t50_lo"], t90=onsets["t50_hi"])
    rows, _ = onset_stages(own, 0, 1000)
    assert [(row["start_lo"], row["start"], row["start_hi"]) for row in rows[1:]] == [(95, 110, 130), (290, 300, 310)]


@pytest.mark.parametrize(
    ("verdict", "quantity", "ends"),
    [("steady", "q", (490, 710)), ("small", "q", (590, 610)), ("steady", "r", (590, 610))],
)
def test_curves_that_moved_at_an_unknown_time_widen_the_interval_of_those_one_after_another(
    verdict: str, quantity: str, ends: tuple[int, int]
) -> None:
    t50 = np.arange(200.0, 1001, 100)
    times = {"t10": t50 - 20, "t50": t50, "t90": t50 + 20, "t50_lo": t50 - 10, "t50_hi": t50 + 10}
    onsets = pd.DataFrame({"onset": True, "verdict": "onset", "before": 0.0, "after": 1.0, **times})
    without = onsets.head(2).assign(onset=False, verdict=verdict, quantity=quantity)
    table = pd.concat([onsets.assign(quantity="q"), without]).assign(probe="Own", relation="induction")
    (_, row), _ = onset_stages(table, 0, 3000)
    assert (row["start_lo"], row["start_hi"]) == ends


def test_heads_one_after_another_are_one_stage_and_it_says_so(step_up: Curves) -> None:
    of = {"probe": "AttentionTo", "quantity": "mass", "relation": "induction", "layer": 0}
    heads = [step_up(at, head=head, **of) for head, at in enumerate(range(200, 1000, 100))]
    stages = find_stages(pd.concat(heads))
    _, stage = stages.table.to_dict("records")
    assert happened(stages)[1].startswith("one after another, steps ")
    assert happened(stages)[1].count("becomes an induction head") == 8
    assert stage["start_lo"] <= 550 <= stage["start_hi"]


def test_the_interval_of_a_boundary_between_two_steps_is_rounded_outwards() -> None:
    times = {"t10": 3.2, "t50": 3.7, "t90": 4.0, "t50_lo": 3.4, "t50_hi": 3.9}
    row = {"onset": True, "probe": "Own", "quantity": "q", "before": 0.0, "after": 1.0, **times}
    (_, late), _ = onset_stages(pd.DataFrame([row]), 0, 20)
    assert (late["start_lo"], late["start"], late["start_hi"]) == (3, 4, 4)


@pytest.mark.parametrize(("number", "counted"), [(1, "with 1 checkpoint no"), (9, "with 9 checkpoints no")])
def test_too_few_checkpoints_are_counted(number: int, counted: str) -> None:
    found = find_stages(read_log({"step": range(number), "loss": np.linspace(3, 1, number)}))
    assert f"no stages can be found: {counted} onset" in found.words()
