"""Findings over seeds: aligned, with the distribution that was planted, and saved as plain data."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from stagewise.findings._frames import from_plain
from stagewise.findings.replicates import FRAMES, Replicates, _event, find_replicates, replicates_of
from stagewise.findings.stages import Stages, find_stages
from stagewise.saved_findings import save_replicates
from stagewise.words import event_names

EARLY, LATE = (100, 130, 170, 200), (500, 420, 600, 450)
LATER = "attends more to what followed the token before"


def names(found: Replicates) -> list[str]:
    return event_names(found.catalogue, found.quantities)


@pytest.fixture(scope="module")
def found(step_up: Callable[..., pd.DataFrame]) -> Replicates:
    """Four seeds whose heads are at other indices: one attends early to the token before, another one late to others.

    The late one is missing in the last seed.
    """
    of = {"probe": "AttentionTo", "quantity": "mass", "layer": 0}
    frames = []
    for seed, (early, late) in enumerate(zip(EARLY, LATE, strict=True)):
        times = {(seed % 2, "previous token"): early, (1 - seed % 2, "induction"): late if seed < 3 else None}
        for head, relation in itertools.product((0, 1), ("previous token", "induction")):
            at = times.get((head, relation))
            rises = step_up(at or 700, by=0.7 if at else 0.0, relation=relation, head=head, **of)
            frames.append(rises.assign(run=f"seed {seed}"))
    return find_replicates(pd.concat(frames, ignore_index=True))


def test_events_are_aligned_by_role_and_have_the_planted_times(found: Replicates) -> None:
    assert found.events["seeds"].tolist() == [4, 3]
    assert [names(found)[event][5:] for event in found.events["event"]] == ["attends more to the previous token", LATER]
    planted = [np.expm1(np.log1p(times).mean()) for times in (EARLY, LATE[:3])]
    assert found.events["step"].to_numpy() == pytest.approx(planted, rel=0.03)
    assert (found.events["new_lo"] < found.events["lo"]).all()
    assert found.events.loc[1, "share"] == 0.75
    ends = found.events[["least", "most"]].to_numpy()
    assert ends == pytest.approx(np.array([[min(EARLY), max(EARLY)], [min(LATE[:3]), max(LATE[:3])]]), rel=0.05)
    assert found.events["told"].tolist() == [True, False]  # of four seeds, and of three


def test_an_interval_that_leaves_the_run_is_not_told(found: Replicates) -> None:
    apart = pd.DataFrame({"step": [1.0, 1.0, 1.0, 900.0], "lo": 1.0, "hi": 900.0, "event": 0, "kind": "onset"})
    assert not _event(apart, 4, last=1000)["told"]
    assert _event(apart.assign(step=[100.0, 110.0, 120.0, 130.0]), 4, last=1000)["told"]


def test_the_order_holds_in_all_seeds_that_have_both(found: Replicates) -> None:
    (order,) = found.order.to_dict("records")
    assert "previous token" in names(found)[order["before"]]
    assert (order["seeds"], order["share"]) == (3, 1.0)
    assert order["p_value"] < 0.05
    assert "comes before" in str(found)


@pytest.mark.slow
def test_a_rise_that_one_seed_lacks_does_not_move_the_later_ones(step_up: Callable[..., pd.DataFrame]) -> None:
    of = {"probe": "Accuracy", "quantity": "accuracy"}
    frames = []
    for seed, late in enumerate((800, 760, 850, 820, 790)):
        rows, later = step_up(60 + seed, by=0.4 * (seed < 4), **of), step_up(late, by=0.4, noise=0.0, **of)
        frames.append(rows.assign(value=rows["value"] + later["value"], run=f"seed {seed}"))
    events = find_replicates(pd.concat(frames, ignore_index=True)).events
    assert events["seeds"].tolist() == [4, 5]
    assert events["least"].to_numpy() == pytest.approx([60, 760], rel=0.1)
    assert events["most"].to_numpy() == pytest.approx([63, 850], rel=0.1)


def test_equal_gaps_in_two_seeds_are_no_certainty(step_up: Callable[..., pd.DataFrame]) -> None:
    of = {"probe": "AttentionTo", "quantity": "mass", "layer": 0, "relation": "induction"}
    rows = pd.concat([step_up(at, head=head, **of) for head, at in enumerate((100, 500))])
    (order,) = find_replicates(pd.concat([rows.assign(run=name) for name in "ab"])).order.to_dict("records")
    assert order["p_value"] == 0.5  # two of two, by the sign test


def test_boundaries_are_aligned_by_their_references(references: pd.DataFrame) -> None:
    runs = pd.concat([references.assign(run="a"), references.assign(run="b", step=references["step"] * 2)])
    found = find_replicates(runs)
    events = found.events
    assert [names(found)[event] for event in events["event"]] == ["end of the stage of one", "end of the stage of two"]
    assert (events["kind"] == "boundary").all()
    of_one = find_stages(runs[runs["run"] == "a"]).turning_points["step"].to_numpy()[:2]
    assert (1 + events["step"].to_numpy()) ** 2 == pytest.approx((1 + of_one) * (1 + 2 * of_one), rel=2e-3)


def test_they_are_saved_as_plain_data(found: Replicates, tmp_path: Path) -> None:
    read = json.loads(save_replicates(found, tmp_path).read_text(encoding="utf8"))
    assert tuple(read["runs"]) == found.runs
    for name in FRAMES:
        pd.testing.assert_frame_equal(from_plain(read[name]), getattr(found, name))


def test_two_runs_of_one_name_are_refused(references: pd.DataFrame) -> None:
    stages: Stages = find_stages(references)
    with pytest.raises(ValueError, match="runs of different names, got run, run"):
        replicates_of([stages, stages])
