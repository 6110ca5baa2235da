"""Heads of several runs find their counterparts, whatever their indices are."""

import numpy as np
import pandas as pd
import pytest

from stagewise.criteria import DEFAULT, StageCriteria
from stagewise.findings._frames import by_role
from stagewise.findings._roles import (
    EVENTS,
    UNDECIDED,
    head_events,
    head_labels,
    head_roles,
    paired_roles,
    with_roles,
)
from stagewise.table import roles_in

STEPS = np.unique(np.geomspace(1, 1000, 20).astype(int))


def run_of(name: str, order: list[int], seed: int) -> pd.DataFrame:
    """A run of one layer whose head at place i does what role order[i] does: it attends k back from step 10^k on."""
    generator = np.random.default_rng(seed)
    frames = [
        pd.DataFrame({"step": STEPS, "relation": f"{k} back", "head": place, "value": value})
        for place, role in enumerate(order)
        for k in (1, 2, 3)
        for value in [0.9 * (role == k) * (3 * 10 ** (k - 1) < STEPS) + 0.03 * generator.standard_normal(len(STEPS))]
    ]
    return pd.concat(frames).assign(run=name, probe="AttentionTo", quantity="mass", layer=0)


ORDERS = ([1, 2, 3], [3, 1, 2], [2, 1, 3], [1, 3, 2])


def table_of(orders: tuple[list[int], ...] = ORDERS) -> pd.DataFrame:
    return pd.concat([run_of(f"seed {i}", order, i) for i, order in enumerate(orders)], ignore_index=True)


def test_heads_that_do_the_same_have_the_same_role() -> None:
    roles = head_roles(table_of())
    does = {(f"seed {i}", place): role for i, order in enumerate(ORDERS) for place, role in enumerate(order)}
    planted = [does[run, head] for run, head in zip(roles["run"], roles["head"], strict=True)]
    assert sorted(map(tuple, roles.assign(does=planted).groupby("role")["does"].unique())) == [(1,), (2,), (3,)]
    assert roles["distance"].max() < 0.3


def test_roles_stand_in_place_of_indices() -> None:
    table = table_of()
    roles = head_roles(table)
    renamed = pd.concat([with_roles(rows, roles[roles["run"] == name]) for name, rows in table.groupby("run")])
    last = renamed[(renamed["step"] == 1000) & (renamed["value"] > 0.5)]
    assert (last.groupby("relation")["head"].nunique() == 1).all()
    assert last["head"].nunique() == 3


def test_runs_of_other_heads_are_refused() -> None:
    with pytest.raises(ValueError, match="the same heads in every run, got seed 0: 3, seed 1: 2"):
        head_roles(table_of(([1, 2, 3], [1, 2])))


def test_a_table_without_heads_has_no_roles() -> None:
    rows = pd.DataFrame({"run": ["a"], "step": [0], "probe": ["Loss"], "quantity": ["excess"], "value": [1.0]})
    assert head_roles(rows).empty


def test_heads_of_another_run_have_the_numbers_of_those_that_do_the_same() -> None:
    first, second = run_of("first", [1, 2, 3], 0), run_of("second", [3, 4, 1, 2], 1)
    roles = paired_roles(pd.concat([first, second], ignore_index=True))
    of = {run: rows.set_index("head")["role"].to_dict() for run, rows in roles.groupby("run")}
    assert of == {"first": {0: 0, 1: 1, 2: 2}, "second": {0: 2, 1: 3, 2: 0, 3: 1}}
    alone = roles.query("run == 'second' and head == 1")["distance"]
    assert alone.isna().all()
    assert roles["distance"].dropna().max() < 0.3


def test_a_layer_that_one_run_lacks_and_a_head_without_another_have_no_distance() -> None:
    first = run_of("first", [1], 0)
    second = pd.concat([run_of("second", [1], 1), run_of("second", [2, 3], 2).assign(layer=1)])
    roles = paired_roles(pd.concat([first, second], ignore_index=True))
    assert roles[["run", "layer", "head", "role"]].to_numpy().tolist() == [
        ["first", 0, 0, 0],
        ["second", 0, 0, 0],
        ["second", 1, 0, 0],
        ["second", 1, 1, 1],
    ]
    assert roles["distance"].isna().all()


def test_pairs_are_of_two_runs() -> None:
    with pytest.raises(ValueError, match="paired between two runs, the table has 4: seed 0"):
        paired_roles(table_of())


def shares(of_the_first: list[float]) -> pd.DataFrame:
    frames = [
        pd.DataFrame({"step": range(len(values)), "relation": name, "value": values})
        for name, values in (("I(1)", of_the_first), ("I(2)", [1 - share for share in of_the_first]))
    ]
    frame = pd.concat(frames).assign(run="run", probe="HeadSpecialisation", quantity="share", layer=0, head=1)
    return frame


def events_of(table: pd.DataFrame, criteria: StageCriteria = DEFAULT) -> pd.DataFrame:
    return head_events(by_role(table, roles_in(table)), criteria)


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
