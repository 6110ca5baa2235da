"""When heads change what they attend to: for good, not for a visit, and by other thresholds."""

import numpy as np
import pandas as pd
import pytest

from stagewise.findings._frames import by_role
from stagewise.findings._head_labels import EVENTS, UNDECIDED, head_events, head_labels
from stagewise.statistics import DEFAULT, StageCriteria


def shares(of_the_first: list[float]) -> pd.DataFrame:
    frames = [
        pd.DataFrame({"step": range(len(values)), "relation": name, "value": values})
        for name, values in (("I(1)", of_the_first), ("I(2)", [1 - share for share in of_the_first]))
    ]
    frame = pd.concat(frames).assign(run="run", probe="HeadSpecialisation", quantity="share", layer=0, head=1)
    return frame


def events_of(table: pd.DataFrame, criteria: StageCriteria = DEFAULT) -> pd.DataFrame:
    return head_events(by_role(table), criteria)


def test_a_head_that_moves_for_good_is_one_event_between_two_checkpoints() -> None:
    (event,) = events_of(shares([0.9, 0.9, 0.8, 0.2, 0.1, 0.1])).to_dict("records")
    assert event == {
        "layer": 0,
        "head": 1,
        "before": "I(1)",
        "after": "I(2)",
        "last_step_before": 2,
        "first_step_after": 3,
    }


@pytest.mark.parametrize("checkpoints", [2, 8])
def test_a_share_that_is_no_number_hides_no_change(checkpoints: int) -> None:
    table = shares([0.9] * checkpoints + [float("nan")] + [0.1] * checkpoints)
    (event,) = events_of(table).to_dict("records")
    assert (event["last_step_before"], event["first_step_after"]) == (checkpoints - 1, checkpoints + 1)
    assert head_labels(table).query(f"label == '{UNDECIDED}'")["step"].tolist() == [checkpoints]
    assert events_of(shares([float("nan")] * 4)).empty


def test_a_visit_of_one_checkpoint_is_no_event() -> None:
    assert events_of(shares([0.9, 0.9, 0.2, 0.9, 0.9, 0.9])).empty


def test_a_head_at_the_edge_keeps_its_name_until_another_has_half() -> None:
    three_way = pd.concat(
        [
            shares([0.6, 0.6, 0.45, 0.45, 0.3, 0.3]).query("relation == 'I(1)'"),
            shares([0.8, 0.8, 0.8, 0.8, 0.8, 0.8]).query("relation == 'I(2)'"),
        ]
    )
    assert events_of(three_way)[["before", "after", "first_step_after"]].to_numpy().tolist() == [["I(1)", "diffuse", 4]]


def test_a_head_enters_and_leaves_at_the_shares_of_the_criteria() -> None:
    table = shares([0.6, 0.6, 0.45, 0.45, 0.3, 0.3])
    (event,) = events_of(table).to_dict("records")
    assert (event["after"], event["first_step_after"]) == ("I(2)", 2)
    (late,) = events_of(table, StageCriteria(enter=0.6)).to_dict("records")
    assert (late["after"], late["first_step_after"]) == ("I(2)", 4)


def test_a_longer_dwell_passes_over_a_visit_of_two_checkpoints() -> None:
    visit = shares([0.9, 0.9, 0.9, 0.2, 0.2, 0.9, 0.9, 0.9])
    assert len(events_of(visit)) == 2
    assert events_of(visit, StageCriteria(dwell=3)).empty


def test_a_table_without_shares_has_no_events_but_their_columns() -> None:
    assert list(events_of(shares([0.9]).assign(probe="Loss"))) == list(EVENTS)


def test_a_head_near_a_threshold_or_between_two_relations_cannot_be_told() -> None:
    labels = head_labels(shares([0.9, 0.7, 0.55, 0.45, 0.1]).assign(lo=0.0, hi=0.2))
    assert labels["label"].tolist() == ["I(1)", "I(1)", UNDECIDED, UNDECIDED, "I(2)"]
    assert labels["lead"].tolist() == pytest.approx([0.8, 0.4, 0.1, 0.1, 0.8])


def test_noise_between_checkpoints_makes_a_label_undecided_that_one_value_would_decide() -> None:
    values = 0.52 + 0.02 * np.random.default_rng(0).standard_normal(30)
    assert (head_labels(shares(values.tolist()))["label"] == UNDECIDED).mean() > 0.8
    assert (head_labels(shares([0.52] * 30))["label"] == "I(1)").all()
    assert head_labels(shares([0.5]).assign(probe="Loss")).empty


@pytest.mark.parametrize("values", [[0.9, 0.1], [0.9, 0.1, 0.9, 0.1]])
def test_where_no_name_lasts_nothing_changes(values: list[float]) -> None:
    assert events_of(shares(values)).empty


def test_a_relation_without_any_number_hides_no_label() -> None:
    rows = shares([0.9, 0.9, 0.9, 0.1, 0.1, 0.1])
    rows.loc[rows["relation"] == "I(2)", "value"] = np.nan
    assert head_labels(rows)["label"].tolist() == ["I(1)"] * 3 + ["diffuse"] * 3
    assert head_labels(rows.assign(value=np.nan))["label"].tolist() == [UNDECIDED] * 6
